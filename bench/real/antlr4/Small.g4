// SPDX-License-Identifier: BSL-1.0
// A language like Java, small enough to read, with the ambiguities that make a parser look ahead.
grammar Small;
file: decl* EOF;
decl: 'class' ID '{' member* '}';
member: type ID ('=' expr)? ';' | type ID '(' (type ID (',' type ID)*)? ')' block;
type: ('int' | 'boolean' | ID) ('<' type (',' type)* '>')? ('[' ']')*;
block: '{' statement* '}';
statement: block | type ID ('=' expr)? ';' | 'if' '(' expr ')' statement ('else' statement)? | 'while' '(' expr ')' statement
    | 'return' expr? ';' | expr ';';
expr: primary
    | expr '.' ID | expr '[' expr ']' | expr '(' (expr (',' expr)*)? ')' | 'new' type '(' (expr (',' expr)*)? ')'
    | '(' type ')' expr | ('-' | '!') expr | expr ('*' | '/' | '%') expr | expr ('+' | '-') expr
    | expr ('<' | '>' | '<=' | '>=') expr | expr ('==' | '!=') expr | expr '&&' expr | expr '||' expr
    | <assoc=right> expr '?' expr ':' expr | <assoc=right> expr '=' expr;
primary: '(' expr ')' | 'this' | NUMBER | STRING | ID;
ID: [A-Za-z_] [A-Za-z_0-9]*;
NUMBER: [0-9]+;
STRING: '"' ~["]* '"';
SPACE: [ \t\r\n]+ -> skip;

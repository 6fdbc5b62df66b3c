// SPDX-License-Identifier: BSL-1.0
// A source text is parsed into a tree, with all that the parser has learnt forgotten after each class: what a tool meets that parses
// one file and ends.
#include "antlr4-runtime.h"

#include <string>
// What the package's generator makes of Small.g4.
#include "SmallLexer.cpp"
#include "SmallParser.cpp"
#include "job.hpp"

namespace {

std::string source(std::size_t number) {
    const std::string n = std::to_string(number);
    std::string text = "class Item" + n + " { int count = " + n + "; List<Item" + n +
                       "> next = new List<Item" + n + ">(count, 3);\n";
    for (int method = 0; method < 4; ++method) {
        const std::string m = std::to_string(method);
        text += "  int sum" + m +
                "(int first, Map<String, int[]> all) {\n    int i = 0; boolean last = !done && i < first || "
                "all.size() == " +
                n + ";\n    while (i < all.get(\"key\")[" + m +
                "].length) { if (i % 2 == 0) first = first + i * (count - 1); else { first = -first; }"
                " i = i + 1; }\n    return last ? first : this.sum" +
                m + "(first - 1, all);\n  }\n";
    }
    return text + "}\n";
}

}  // namespace

void bench::job(digest& output, double scale) {
    for (std::size_t i = 0; i < scaled(400, scale); ++i) {
        antlr4::ANTLRInputStream input(source(i));
        SmallLexer lexer(&input);
        antlr4::CommonTokenStream tokens(&lexer);
        SmallParser parser(&tokens);
        parser.getInterpreter<antlr4::atn::ParserATNSimulator>()->clearDFA();
        output.add(parser.file()->toStringTree(&parser));
        output.add(parser.getNumberOfSyntaxErrors());
    }
}

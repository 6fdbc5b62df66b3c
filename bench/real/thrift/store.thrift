// SPDX-License-Identifier: BSL-1.0
// What the job's clients ask of its server.
namespace cpp store

struct Item {
    1: i64 id,
    2: string name,
    3: list<string> tags,
    4: map<string, i32> stock,
}

service Store {
    Item restock(1: Item item, 2: i32 by),
    i32 count(1: string name),
}

// SPDX-License-Identifier: BSL-1.0

// Plan: the library's assumptions about std::allocate_shared are compared with the standard library in use, by an empty
// allocator that records its calls. No pool takes part.
//   - where the object lies in its block, and how large and how aligned the block is: by the object's size and alignment
//   - is_observed(): at each moment at which it may be asked, for every way to get there
//   - add_weak(), release_weak(): the block stays, and goes once
//   - destruction and deallocation come through the allocator, the one right after the other when nobody observes

#include "pooled/smart/standard_control_block.hpp"

#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace {

using control = pooled::detail::standard_control_block;

// What happened to the one block of a test.
struct record {
    std::byte* block = nullptr;
    std::size_t bytes = 0;
    std::size_t align = 0;
    std::string events;  // a: allocated, c: constructed, d: destroyed, f: freed
    std::function<void()> on_destroy = [] {};

    [[nodiscard]] bool is_observed() const { return control::is_observed(block); }
    void add_weak() const { control::add_weak(block); }
    void release_weak() const { control::release_weak(block); }
};
record* g_record = nullptr;

template <class T>
struct recording {
    using value_type = T;

    recording() = default;
    template <class U>
    recording(recording<U> const&) noexcept {}  // NOLINT: as allocators do

    [[nodiscard]] T* allocate(std::size_t n) {
        void* const p = ::operator new(n * sizeof(T), std::align_val_t{alignof(T)});
        g_record->block = static_cast<std::byte*>(p);
        g_record->bytes = n * sizeof(T);
        g_record->align = alignof(T);
        g_record->events += 'a';
        return static_cast<T*>(p);
    }
    void deallocate(T* p, std::size_t n) noexcept {
        EXPECT_EQ(static_cast<void*>(p), g_record->block);
        EXPECT_EQ(n * sizeof(T), g_record->bytes);
        g_record->events += 'f';
        ::operator delete(p, std::align_val_t{alignof(T)});
    }
    template <class U, class... Args>
    void construct(U* p, Args&&... args) {
        g_record->events += 'c';
        std::construct_at(p, std::forward<Args>(args)...);
    }
    template <class U>
    void destroy(U* p) noexcept {
        g_record->events += 'd';
        g_record->on_destroy();
        std::destroy_at(p);
    }

    friend bool operator==(recording const&, recording const&) noexcept { return true; }
};

class standard_control_block : public testing::Test {
protected:
    record seen;

    standard_control_block() { g_record = &seen; }
    ~standard_control_block() override { g_record = nullptr; }

    template <class T, class... Args>
    static std::shared_ptr<T> make(Args&&... args) {
        return std::allocate_shared<T>(recording<std::remove_cv_t<T>>{}, std::forward<Args>(args)...);
    }

    template <class T>
    void expect_layout(char const* what) {
        seen = {};
        auto p = make<T>();
        auto const offset = static_cast<std::size_t>(
            reinterpret_cast<std::byte const volatile*>(std::addressof(*p)) - seen.block);
        EXPECT_EQ(offset, control::k_object_offset<T>) << what;
        EXPECT_EQ(seen.bytes, control::k_bytes<T>) << what;
        EXPECT_EQ(seen.align, control::k_align<T>) << what;
        EXPECT_LE(offset + sizeof(T), seen.bytes) << what;
        EXPECT_FALSE(seen.is_observed()) << what;
        std::weak_ptr<T> observer = p;
        EXPECT_TRUE(seen.is_observed()) << what;
        observer.reset();
        EXPECT_FALSE(seen.is_observed()) << what;
        p.reset();
        EXPECT_EQ(seen.events, "acdf") << what;
    }
};

template <std::size_t Bytes, std::size_t Align>
struct alignas(Align) shaped {
    ~shaped() { bytes[0] = std::byte{0}; }
    std::byte bytes[Bytes];
};

TEST_F(standard_control_block, the_object_follows_the_counts_whatever_its_size_and_alignment) {
    auto const expect_all = [this]<std::size_t Align, std::size_t... Bytes>() {
        (..., expect_layout<shaped<Bytes, Align>>(
                  (std::to_string(Bytes) + " bytes aligned to " + std::to_string(Align)).c_str()));
    };
    expect_all.template operator()<1, 1, 3, 7, 9, 17>();
    expect_all.template operator()<2, 2>();
    expect_all.template operator()<4, 4, 12, 1500>();
    expect_all.template operator()<8, 8, 16, 48, 100'000>();
    expect_all.template operator()<16, 1, 24>();
    expect_all.template operator()<32, 1, 40>();
    expect_all.template operator()<64, 64, 65>();
    expect_all.template operator()<256, 8>();
    expect_all.template operator()<4096, 8>();
}

struct empty {
    empty() = default;
    ~empty() {}  // NOLINT: not trivial
};
struct empty_final final {
    empty_final() = default;
    ~empty_final() {}  // NOLINT: not trivial
};
struct alignas(32) empty_aligned {
    ~empty_aligned() {}  // NOLINT: not trivial
};
struct final_one final {
    ~final_one() { word = 0; }
    std::uint64_t word = 1;
};
struct polymorphic {
    virtual ~polymorphic() = default;
};
struct virtually_derived : virtual polymorphic {
    std::uint64_t word = 1;
};
struct tail_padded : polymorphic {  // what derives from it may put a member into its last bytes
    char last = 'x';
};
struct unaware_of_addresses {
    ~unaware_of_addresses() { word = 0; }
    void operator&() const = delete;  // NOLINT: std::addressof must do
    std::uint64_t word = 1;
};

TEST_F(standard_control_block, the_object_follows_the_counts_whatever_its_class_is_like) {
    expect_layout<empty>("empty");
    expect_layout<empty_final>("empty, final");
    expect_layout<empty_aligned>("empty, aligned");
    expect_layout<final_one>("final");
    expect_layout<polymorphic>("polymorphic");
    expect_layout<virtually_derived>("with a virtual base");
    expect_layout<tail_padded>("with tail padding");
    expect_layout<unaware_of_addresses>("without an address");
    expect_layout<std::string>("string");
    expect_layout<std::string const>("constant string");
    expect_layout<std::shared_ptr<int>>("pointer");
}

// Each asks at the moment at which the allocator destroys the object.
TEST_F(standard_control_block, the_last_of_several_owners_finds_itself_unobserved) {
    int asked = 0;
    seen.on_destroy = [&] {
        ++asked;
        EXPECT_FALSE(seen.is_observed());
    };
    auto p = make<std::string>();
    auto q = p;
    auto r = q;
    p.reset();
    r.reset();
    EXPECT_EQ(asked, 0);
    q.reset();
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(seen.events, "acdf");
}

TEST_F(standard_control_block, an_object_with_observers_is_observed_until_the_last_of_them_is_gone) {
    auto p = make<std::string>();
    std::weak_ptr<std::string> observer = p;
    auto another = observer;
    seen.on_destroy = [&] {
        EXPECT_TRUE(seen.is_observed());
        observer.reset();
        EXPECT_TRUE(seen.is_observed());
    };
    p.reset();
    EXPECT_EQ(seen.events, "acd");
    another.reset();
    EXPECT_EQ(seen.events, "acdf");
}

TEST_F(standard_control_block, an_observer_that_goes_on_another_thread_is_not_counted) {
    test::sleeper other;
    auto p = make<std::string>();
    std::weak_ptr<std::string> observer = p;
    seen.on_destroy = [&] {
        EXPECT_TRUE(seen.is_observed());
        other.run([&] { observer.reset(); });
        EXPECT_FALSE(seen.is_observed());
    };
    p.reset();
    EXPECT_EQ(seen.events, "acdf");
}

struct aware : std::enable_shared_from_this<aware> {
    std::uint64_t word = 1;
};

TEST_F(standard_control_block, an_object_that_knows_itself_observes_itself) {
    seen.on_destroy = [&] { EXPECT_TRUE(seen.is_observed()); };
    auto p = make<aware>();
    EXPECT_TRUE(seen.is_observed());
    p.reset();
    EXPECT_EQ(seen.events, "acdf");
}

TEST_F(standard_control_block, a_weak_reference_is_like_a_weak_pointer) {
    auto p = make<std::string>();
    seen.add_weak();
    EXPECT_TRUE(seen.is_observed());
    seen.add_weak();
    seen.release_weak();
    EXPECT_TRUE(seen.is_observed());
    seen.release_weak();
    EXPECT_FALSE(seen.is_observed());
    EXPECT_EQ(p.use_count(), 1);
    p.reset();
    EXPECT_EQ(seen.events, "acdf");
}

TEST_F(standard_control_block, a_weak_reference_taken_at_destruction_keeps_the_block) {
    auto p = make<std::string>();
    std::weak_ptr<std::string> observer = p;
    seen.on_destroy = [&] { seen.add_weak(); };
    p.reset();
    EXPECT_EQ(seen.events, "acd");
    EXPECT_TRUE(observer.expired());
    EXPECT_EQ(observer.lock(), nullptr);
    observer.reset();
    EXPECT_EQ(seen.events, "acd") << "the reference is not worth a weak pointer";
    EXPECT_FALSE(seen.is_observed())
        << "by others: this is the last reference, and counts as the owners' did";
    seen.release_weak();
    EXPECT_EQ(seen.events, "acdf");
}

// The allocator may rely on the next call being the deallocation.
TEST_F(standard_control_block, an_unobserved_block_is_deallocated_right_after_its_object_and_on_that_thread) {
    test::sleeper other;
    auto p = make<std::string>();
    auto q = p;
    other.run([&] { p.reset(); });
    EXPECT_EQ(seen.events, "ac");
    other.run([&] {
        q.reset();
        EXPECT_EQ(seen.events, "acdf");
    });
}

TEST_F(standard_control_block, a_constructor_that_throws_is_followed_by_deallocation_alone) {
    struct fails {
        fails() { throw std::bad_alloc(); }
    };
    EXPECT_THROW(static_cast<void>(make<fails>()), std::bad_alloc);
    EXPECT_EQ(seen.events, "acf");
}

#if defined(__GLIBCXX__)
TEST(standard_control_block_counts, tell_weak_pointers_from_a_block_that_is_being_freed) {
    using block = pooled::detail::standard_control_block;
    alignas(16) std::array<std::byte, 64> memory{};
    auto* const counts = const_cast<int*>(block::counts_of(memory.data()));
    EXPECT_FALSE(block::is_only_weak(memory.data())) << "the only reference was dropped: both counts are 0";
    counts[1] = 1;
    EXPECT_TRUE(block::is_only_weak(memory.data())) << "a weak pointer";
    counts[0] = 1;
    EXPECT_FALSE(block::is_only_weak(memory.data())) << "an owner";
}
#endif

}  // namespace

// The answers of some of CK's templates, found by plain loops: theirs ask the compiler for a type at each step of a merge sort, and
// for a lambda in a lambda for each dimension of a walk. Specialisations of CK's own templates, so they stand before their first use.
#pragma once

#include "ck/utility/common_header.hpp"

namespace xdl {

using ck::index_t;

// Values in order, each once.
template <typename Less, index_t... Values>
struct Distinct
{
    index_t value[sizeof...(Values)]{};
    index_t count = 0;

    constexpr Distinct()
    {
        for(index_t next : {Values...})
            insert(next);
    }

    constexpr void insert(index_t next)
    {
        index_t at = 0;
        while(at < count && Less{}(value[at], next))
            ++at;
        if(at < count && value[at] == next)
            return;
        for(index_t behind = count++; behind > at; --behind)
            value[behind] = value[behind - 1];
        value[at] = next;
    }
};

template <typename Less, index_t... Values>
struct DistinctOf
{
    static constexpr Distinct<Less, Values...> found{};

    template <typename T, T... At>
    using Taken = ck::Sequence<found.value[At]...>;

    using type = __make_integer_seq<Taken, index_t, found.count>;
};

template <index_t... Map>
constexpr bool permutes()
{
    bool seen[sizeof...(Map)]{};
    for(index_t to : {Map...})
    {
        if(to < 0 || to >= index_t(sizeof...(Map)) || seen[to])
            return false;
        seen[to] = true;
    }
    return true;
}

} // namespace xdl

namespace ck {

template <index_t First, index_t... Others, typename Less, typename Equal>
struct sequence_unique_sort<Sequence<First, Others...>, Less, Equal>
{
    using type = typename xdl::DistinctOf<Less, First, Others...>::type;
};

template <index_t First, index_t... Others>
struct is_valid_sequence_map<Sequence<First, Others...>>
{
    static constexpr bool value = xdl::permutes<First, Others...>();

    __host__ __device__ constexpr operator bool() const { return value; }
};

// A walk over a box of steps, its last dimension in the order first.
template <index_t... Lengths, index_t... Order>
struct static_ford<Sequence<Lengths...>, Sequence<Order...>>
{
    template <class F>
    __host__ __device__ constexpr void operator()(F f) const
    {
        walk(f, typename arithmetic_sequence_gen<0, (Lengths * ... * 1), 1>::type{});
    }

private:
    static constexpr index_t place(index_t step, index_t wanted)
    {
        constexpr index_t lengths[]{Lengths...}, order[]{Order...};
        for(index_t turn = sizeof...(Order) - 1; order[turn] != wanted; --turn)
            step /= lengths[order[turn]];
        return step % lengths[wanted];
    }

    template <index_t Step, typename Dims>
    struct Place;

    template <index_t Step, index_t... Dims>
    struct Place<Step, Sequence<Dims...>>
    {
        using type = Sequence<place(Step, Dims)...>;
    };

    template <class F, index_t... Steps>
    __host__ __device__ static constexpr void walk(F& f, Sequence<Steps...>)
    {
        using Dims = typename arithmetic_sequence_gen<0, sizeof...(Lengths), 1>::type;
        (f(typename Place<Steps, Dims>::type{}), ...);
    }
};

} // namespace ck

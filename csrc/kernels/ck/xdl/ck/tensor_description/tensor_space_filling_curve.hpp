// In place of CK's header, whose templates ask the compiler for dozens of functions for each step. The same walk, counted by plain
// loops: over the boxes of a block, the first dimension of the order slowest, every other row backwards, so that each box lies
// beside the one before it.
#pragma once

#include "ck/utility/common_header.hpp"

namespace ck {

template <typename TensorLengths, typename DimAccessOrder, typename ScalarsPerAccess, bool SnakeCurved = true>
struct SpaceFillingCurve;

template <index_t... Lengths, index_t... Order, index_t... Scalars, bool SnakeCurved>
struct SpaceFillingCurve<Sequence<Lengths...>, Sequence<Order...>, Sequence<Scalars...>, SnakeCurved>
{
    static constexpr index_t nDim            = sizeof...(Lengths);
    static constexpr index_t ScalarPerVector = (Scalars * ... * 1);

    using Index = MultiIndex<nDim>;

    static_assert(nDim == sizeof...(Order) && nDim == sizeof...(Scalars));
    static_assert(((Lengths % Scalars == 0) && ...));

    __host__ __device__ static constexpr index_t GetNumOfAccess()
    {
        return (Lengths * ... * 1) / ScalarPerVector;
    }

    template <index_t Step>
    __host__ __device__ static constexpr Index GetIndex(Number<Step>)
    {
        return index<Step>(Dims{});
    }

    template <index_t Step>
    __host__ __device__ static constexpr auto GetIndexTupleOfNumber(Number<Step>)
    {
        return numbers<Step>(Dims{});
    }

    template <index_t From, index_t To>
    __host__ __device__ static constexpr Index GetStepBetween(Number<From>, Number<To>)
    {
        static_assert(From >= 0 && From < GetNumOfAccess() && To >= 0 && To < GetNumOfAccess());
        return between<From, To>(Dims{});
    }

    template <index_t Step>
    __host__ __device__ static constexpr Index GetForwardStep(Number<Step>)
    {
        return GetStepBetween(Number<Step>{}, Number<Step + 1>{});
    }

    template <index_t Step>
    __host__ __device__ static constexpr Index GetBackwardStep(Number<Step>)
    {
        return GetStepBetween(Number<Step>{}, Number<Step - 1>{});
    }

private:
    using Dims = typename arithmetic_sequence_gen<0, nDim, 1>::type;

    // Where the box of `step` begins along `wanted`.
    __host__ __device__ static constexpr index_t begin(index_t step, index_t wanted)
    {
        constexpr index_t lengths[]{Lengths...}, scalars[]{Scalars...}, order[]{Order...};
        index_t boxes = GetNumOfAccess(), rows = 0;
        for(index_t dim : order)
        {
            const index_t count = lengths[dim] / scalars[dim];
            boxes /= count;
            const index_t place = step / boxes;
            step -= place * boxes;
            if(dim == wanted)
                return scalars[dim] * (SnakeCurved && rows % 2 == 1 ? count - 1 - place : place);
            rows = rows * count + place;
        }
        return 0;
    }

    template <index_t Step, index_t... Ds>
    __host__ __device__ static constexpr Index index(Sequence<Ds...>)
    {
        return make_multi_index(begin(Step, Ds)...);
    }

    template <index_t Step, index_t... Ds>
    __host__ __device__ static constexpr auto numbers(Sequence<Ds...>)
    {
        return make_tuple(Number<begin(Step, Ds)>{}...);
    }

    template <index_t From, index_t To, index_t... Ds>
    __host__ __device__ static constexpr Index between(Sequence<Ds...>)
    {
        return make_multi_index(begin(To, Ds) - begin(From, Ds)...);
    }
};

template <typename TensorLengths, typename DimAccessOrder, typename ScalarsPerAccess, bool SnakeCurved>
struct SpaceFillingCurve<const TensorLengths, DimAccessOrder, ScalarsPerAccess, SnakeCurved>
    : SpaceFillingCurve<TensorLengths, DimAccessOrder, ScalarsPerAccess, SnakeCurved>
{
};

} // namespace ck

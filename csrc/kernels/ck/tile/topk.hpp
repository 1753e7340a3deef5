// What topk.hip instantiates: ck_tile's kernel and pipeline for the k best experts of each token, with a choice of our own.
//
// ck_tile's own choice compares activations and takes the other lane's where two are equal.  In an exchange of lanes each then takes
// the other's: they disagree, the expert that is written is not the one that is crossed out, and it is chosen twice.  Here lanes
// compare logits, which no rounding makes equal, and of equal ones the lowest expert wins; the activation is of the winner alone.
#pragma once

#include "../include/aiter_ck/config.hpp"

#include "ck_tile/ops/topk_softmax/kernel/topk_softmax_kernel.hpp"
#include "ck_tile/ops/topk_softmax/pipeline/topk_softmax_warp_per_row_pipeline.hpp"
#include "ck_tile/ops/topk_softmax/pipeline/topk_softmax_warp_per_row_policy.hpp"
#include "ck_tile/ops/topk_softmax/pipeline/topk_softmax_warp_per_row_problem.hpp"

namespace tile {

using ck_tile::index_t;
using ck_tile::number;

inline constexpr int crossed_out = -2147483647 - 1;

// As large as the logit is, for signed numbers: NaN above infinity, -0 as 0, and none crossed out.
CK_TILE_DEVICE int rank_of(float logit) {
  const int bits = __builtin_bit_cast(int, logit);
  const int order = logit == 0.0f ? 0 : bits ^ (bits >> 31 & 0x7fffffff);
  return __builtin_isnan(logit) ? 0x7fffffff : order;
}

CK_TILE_DEVICE float logit_of(int rank) { return __builtin_bit_cast(float, rank ^ (rank >> 31 & 0x7fffffff)); }

struct Choice {
  int rank;
  index_t expert;
};

CK_TILE_DEVICE Choice better(Choice a, Choice b) {
  const bool first = a.rank > b.rank || (a.rank == b.rank && a.expert < b.expert);
  return first ? a : b;
}

// Logits of a tile, and what the activation of one needs to know of its row.
template <typename Tile>
struct Logits {
  Tile logits;
};

template <typename Tile, typename Rows>
struct ScaledLogits {
  Tile logits;
  Rows largest, inverse;  // of each row: the largest logit, 1 / the sum of exp(logit - largest)
};

struct Sigmoid {
  template <typename Tile>
  CK_TILE_DEVICE auto operator()(const Tile& logits) const {
    return Logits<Tile>{logits};
  }
  template <typename Tile, typename Row>
  CK_TILE_DEVICE static float weight(const Logits<Tile>&, Row, float logit) {
    return 1.0f / (1.0f + ck_tile::exp(-logit));
  }
};

struct Softmax {
  template <typename Tile>
  CK_TILE_DEVICE auto operator()(const Tile& logits) const {
    const auto larger = [](float a, float b) { return ck_tile::max(a, b); };
    const auto sum = [](float a, float b) { return a + b; };
    auto largest = ck_tile::BlockReduce2D{logits, -ck_tile::numeric<float>::infinity()}(larger);
    Tile powers;
    ck_tile::sweep_tile<Tile>([&](auto at) {
      constexpr auto row = ck_tile::make_tuple(at[number<0>{}]);
      powers(at) = ck_tile::exp(logits[at] - largest[row]);
    });
    auto inverse = ck_tile::BlockReduce2D<Tile>{powers, 0.0f}(sum);
    ck_tile::sweep_tile(inverse, [&](auto row) { inverse(row) = 1.0f / inverse(row); });
    return ScaledLogits<Tile, decltype(largest)>{logits, largest, inverse};
  }
  template <typename Tile, typename Rows, typename Row>
  CK_TILE_DEVICE static float weight(const ScaledLogits<Tile, Rows>& of, Row row, float logit) {
    return ck_tile::exp(logit - of.largest[row]) * of.inverse[row];
  }
};

// The k best of each row, best first: the winner of all lanes of the row is written by the first and crossed out by its owner.
template <typename Activation, index_t Lanes>
struct Best {
  template <typename Of, typename OutWindow, typename IndexWindow>
  CK_TILE_DEVICE void operator()(const Of& of, const OutWindow& out, const IndexWindow& indices, index_t k) const {
    using namespace ck_tile;
    using Tile = remove_cvref_t<decltype(of.logits)>;
    constexpr auto spans = Tile::get_distributed_spans();
    const auto walk = [&](auto&& visit) {
      sweep_tile_span(spans[number<0>{}], [&](auto row) {
        sweep_tile_span(spans[number<1>{}], [&](auto column) { visit(make_tuple(row, column)); });
      });
    };
    constexpr auto distribution = Tile::get_tile_distribution();
    auto left = make_static_distributed_tensor<Choice>(distribution);
    walk([&](auto at) {
      const auto place = get_x_indices_from_distributed_indices(distribution, at);
      left(at) = {rank_of(of.logits[at]), place.at(number<1>{})};
    });
    OutWindow out_at = out;
    IndexWindow index_at = indices;
    for (index_t i = 0; i < k; ++i) {
      auto best = block_tile_reduce<Choice>(left, sequence<1>{}, better, Choice{crossed_out, 0x7fffffff});
      block_tile_reduce_xor_sync(best, better);
      auto weight = make_static_distributed_tensor<float>(typename OutWindow::TileDstr{});
      auto expert = make_static_distributed_tensor<index_t>(typename IndexWindow::TileDstr{});
      sweep_tile_span(spans[number<0>{}], [&](auto row) {
        constexpr auto at = make_tuple(row);
        // Each thread has a column of its tile of one row: what is written has one column.
        constexpr auto to = make_tuple(row, tile_distributed_index<0>{});
        weight(to) = Activation::weight(of, at, logit_of(best[at].rank));
        expert(to) = best[at].expert;
      });
      walk([&](auto at) {
        constexpr auto row = make_tuple(at[number<0>{}]);
        if (left[at].expert == best[row].expert) left(at).rank = crossed_out;
      });
      if (threadIdx.x % Lanes == 0) {
        store_tile(out_at, weight);
        store_tile(index_at, expert);
      }
      move_tile_window(out_at, {number<0>{}, number<1>{}});
      move_tile_window(index_at, {number<0>{}, number<1>{}});
    }
  }
};

template <typename Activation>
struct Policy : ck_tile::TopkSoftmaxWarpPerRowPolicy {
  template <typename Problem>
  CK_TILE_HOST_DEVICE static constexpr auto GetSoftmax() {
    return Activation{};
  }
  template <typename Problem>
  CK_TILE_HOST_DEVICE static constexpr auto GetTopk() {
    return Best<Activation, Problem::LanesPerRow>{};
  }
};

// The pipeline's own sigmoid comes before the choice, so it is never asked for: what it calls softmax is the activation here.
template <typename In, int Experts, typename Activation>
struct Topk {
  using Problem = ck_tile::TopkSoftmaxWarpPerRowProblem<In, float, index_t, Experts>;
  using Kernel = ck_tile::TopkSoftmaxKernel<ck_tile::TopkSoftmaxWarpPerRowPipeline<Problem, Policy<Activation>>>;
};

}  // namespace tile

"""Kernels' names for people: what stands in AITER's modules, and what cannot be read stays as it is."""

from __future__ import annotations

import pytest

from build_tools.objects.demangle import kernel_name

NAMES = {
    # a function as an argument, and what it says again by reference
    "_ZN5aiter18act_and_mul_kernelIDF16bTnPFfRKT_EXadL_ZNS_11silu_kernelIDF16bEEfS3_EELi8EEEvPS1_PS2_i":
        "aiter::act_and_mul_kernel<bf16, aiter::silu_kernel<bf16>, 8>",
    # an enumeration's value, a class that is an element type
    "_ZN5aiter27concat_and_cache_mla_kernelIDF16_N8stand_in6e4m3fnELN4vllm18Fp8KVCacheDataTypeE1EEEvPKT_S6_PT0_PKliiiiiiiPKf":
        "aiter::concat_and_cache_mla_kernel<f16, e4m3fn, vllm::Fp8KVCacheDataType(1)>",
    "_ZN5aiter18copy_blocks_kernelIN3c108BFloat16EEEvPlS3_PKli": "aiter::copy_blocks_kernel<bf16>",
    "_ZN4vllm23rotary_embedding_kernelIN3c104HalfELb0ELb1EEEvPKlPT_S6_PKS5_S8_illiii":
        "vllm::rotary_embedding_kernel<f16, false, true>",
    "_ZN4vllm27moe_align_block_size_kernelIlEEvPT_PiS3_S3_S3_iim": "vllm::moe_align_block_size_kernel<i64>",
    "_ZN4vllm15initializeScaleEPfif": "vllm::initializeScale",
    "_Z21moe_fused_gate_kernelIfLi32ELin8EEvPv": "moe_fused_gate_kernel<f32, 32, -8>",
    "_ZN1a1kIZNS_1fEvE3oneEEvT_": "a::k<a::f::one>",
    "_ZN1a1kIZNS_1fERKiEUlfE_ZNS_1fES2_EUliE0_EEvT_T0_": "a::k<a::f::lambda1, a::f::lambda2>",
    "_Z1kIJifDF16bEEvDpT_": "k<i32, f32, bf16>",
    "_ZN12_GLOBAL__N_11kIA4_jEEvT_": "(anonymous)::k<u32[4]>",
    "_Z1kIDv4_fPKvEvT_T0_": "k<f32x4, void const*>",
    "_Z1kIDB8_DU8_DU4_EvT_": "k<fp8, bf8, u4>",
    # such an integer counts among what is met again
    "_ZN5aiter27concat_and_cache_mla_kernelIDF16bDB8_LN4vllm18Fp8KVCacheDataTypeE1EEEvPKT_S6_PT0_PKliiiiiiiPKf":
        "aiter::concat_and_cache_mla_kernel<bf16, fp8, vllm::Fp8KVCacheDataType(1)>",
    "_ZN5aiter19scaled_quant_kernelIDhDB8_EEvPT0_PKT_PKfi": "aiter::scaled_quant_kernel<f16, fp8>",
    "_Z1kIN1a1bIiE1cEEvT_": "k<a::b<i32>::c>",
    # a result that depends on the arguments
    "_ZN4vllm25fused_add_rms_norm_kernelIN3c104HalfELi8EEENSt3__19enable_ifIXaagtT0_Li0Esr12_typeConvertIT_EE6existsEvE4typeEPS5_S8_PKS5_fii":
        "vllm::fused_add_rms_norm_kernel<f16, 8>",
    "_ZN4vllm25fused_add_rms_norm_kernelIfLi0EEENSt3__19enable_ifIXooeqT0_Li0Entsr12_typeConvertIT_EE6existsEvE4typeEPS3_S6_PKS3_fii":
        "vllm::fused_add_rms_norm_kernel<f32, 0>",
    "_Z1kIXsr1aE1bEEvv": "k<a::b>",
}  # fmt: skip


@pytest.mark.parametrize("symbol", NAMES)
def test_a_name_is_what_people_type(symbol: str) -> None:
    assert kernel_name(symbol) == NAMES[symbol]


@pytest.mark.parametrize(
    "symbol",
    [
        "plain_kernel",
        "_ZN5aiter",
        "_Z",
        "_Z3ab",
        "_ZN1aS9_E",
        "_Z1kIXplLi1ELi2EEEvv",
        "_Z1kIiEvS8_",
        "_Z1kIL",
    ],
)
def test_what_is_not_mangled_or_cannot_be_read_stays(symbol: str) -> None:
    assert kernel_name(symbol) == symbol

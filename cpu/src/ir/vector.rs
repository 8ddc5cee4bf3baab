//! Operations on vectors of 128 bits. Each is named by what it does to which elements, low element first; none
//! has an undefined result. `S` is signed, `U` unsigned, a number the bits of an element.
//!
//! Where an operation narrows, the elements of its first operand make the low half of the result.

/// A vector: low and high quadword.
pub type Vector = [u64; 2];

/// Declares an enum, and a table of its variants for those who try them all.
macro_rules! operations {
    ($(#[$meta:meta])+ $name:ident { $($(#[$doc:meta])+ $variant:ident,)+ }) => {
        $(#[$meta])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])+ $variant,)+
        }
        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),+];
        }
    };
}

operations! {
    /// Operations on two vectors.
    VBin {
        /// Bitwise and.
        And,
        /// Bitwise or.
        Or,
        /// Bitwise exclusive or.
        Xor,
        /// Bitwise and of the first's complement and the second.
        AndNot,
        /// Sums, wrapping.
        Add8,
        /// Sums, wrapping.
        Add16,
        /// Sums, wrapping.
        Add32,
        /// Sums, wrapping.
        Add64,
        /// Differences, wrapping.
        Sub8,
        /// Differences, wrapping.
        Sub16,
        /// Differences, wrapping.
        Sub32,
        /// Differences, wrapping.
        Sub64,
        /// Sums, saturated.
        AddSatS8,
        /// Sums, saturated.
        AddSatS16,
        /// Sums, saturated.
        AddSatU8,
        /// Sums, saturated.
        AddSatU16,
        /// Differences, saturated.
        SubSatS8,
        /// Differences, saturated.
        SubSatS16,
        /// Differences, saturated.
        SubSatU8,
        /// Differences, saturated.
        SubSatU16,
        /// All ones where equal, else 0.
        Eq8,
        /// All ones where equal, else 0.
        Eq16,
        /// All ones where equal, else 0.
        Eq32,
        /// All ones where equal, else 0.
        Eq64,
        /// All ones where the first is greater, else 0.
        GtS8,
        /// All ones where the first is greater, else 0.
        GtS16,
        /// All ones where the first is greater, else 0.
        GtS32,
        /// All ones where the first is greater, else 0.
        GtS64,
        /// The smaller ones.
        MinS8,
        /// The smaller ones.
        MinS16,
        /// The smaller ones.
        MinS32,
        /// The smaller ones.
        MinU8,
        /// The smaller ones.
        MinU16,
        /// The smaller ones.
        MinU32,
        /// The larger ones.
        MaxS8,
        /// The larger ones.
        MaxS16,
        /// The larger ones.
        MaxS32,
        /// The larger ones.
        MaxU8,
        /// The larger ones.
        MaxU16,
        /// The larger ones.
        MaxU32,
        /// Means, halves rounded up.
        AvgU8,
        /// Means, halves rounded up.
        AvgU16,
        /// Low halves of products.
        MulLow16,
        /// Low halves of products.
        MulLow32,
        /// High halves of products.
        MulHighS16,
        /// High halves of products.
        MulHighU16,
        /// Bits 15 to 30 of products, rounded.
        MulRoundS16,
        /// Whole products of the even elements.
        MulWideS32,
        /// Whole products of the even elements.
        MulWideU32,
        /// Sums of neighbours' products, of 32 bits, wrapping.
        MulAddS16,
        /// Sums of neighbours' products, unsigned by signed, of 16 bits, saturated.
        MulAddUS8,
        /// Sums of absolute differences, of eight bytes each, as quadwords.
        SumDiffU8,
        /// Negated where the second is negative, 0 where that is 0, else as they are; wrapping.
        Sign8,
        /// As [`VBin::Sign8`].
        Sign16,
        /// As [`VBin::Sign8`].
        Sign32,
        /// Shifted left by the low quadword of the second operand; 0 if that is too much.
        Shl16,
        /// As [`VBin::Shl16`].
        Shl32,
        /// As [`VBin::Shl16`].
        Shl64,
        /// Shifted right by the low quadword of the second operand; 0 if that is too much.
        Shr16,
        /// As [`VBin::Shr16`].
        Shr32,
        /// As [`VBin::Shr16`].
        Shr64,
        /// Shifted right with the sign, by the low quadword of the second operand; only the sign if that is too much.
        Sar16,
        /// As [`VBin::Sar16`].
        Sar32,
        /// Signed words made bytes, saturated.
        PackS16,
        /// Signed dwords made words, saturated.
        PackS32,
        /// Signed words made unsigned bytes, saturated.
        PackU16,
        /// Signed dwords made unsigned words, saturated.
        PackU32,
        /// The low halves' elements by turns.
        InterleaveLow8,
        /// The low halves' elements by turns.
        InterleaveLow16,
        /// The low halves' elements by turns.
        InterleaveLow32,
        /// The low halves' elements by turns.
        InterleaveLow64,
        /// The high halves' elements by turns.
        InterleaveHigh8,
        /// The high halves' elements by turns.
        InterleaveHigh16,
        /// The high halves' elements by turns.
        InterleaveHigh32,
        /// The high halves' elements by turns.
        InterleaveHigh64,
        /// Bytes of the first, chosen by four bits each of the second's; 0 where the highest bit is set.
        Permute8,
        /// Sums of neighbours, wrapping, narrowing.
        AddPairs16,
        /// Sums of neighbours, wrapping, narrowing.
        AddPairs32,
        /// Sums of neighbours, saturated, narrowing.
        AddPairsSatS16,
        /// Differences of neighbours (the lower less the upper), wrapping, narrowing.
        SubPairs16,
        /// Differences of neighbours (the lower less the upper), wrapping, narrowing.
        SubPairs32,
        /// Differences of neighbours (the lower less the upper), saturated, narrowing.
        SubPairsSatS16,
    }
}

operations! {
    /// Operations on one vector.
    VUn {
        /// The low quadword, the high one 0.
        Low64,
        /// Absolute values, wrapping.
        Abs8,
        /// Absolute values, wrapping.
        Abs16,
        /// Absolute values, wrapping.
        Abs32,
        /// The low elements, made wider.
        WidenS8To16,
        /// The low elements, made wider.
        WidenS8To32,
        /// The low elements, made wider.
        WidenS8To64,
        /// The low elements, made wider.
        WidenS16To32,
        /// The low elements, made wider.
        WidenS16To64,
        /// The low elements, made wider.
        WidenS32To64,
        /// The low elements, made wider.
        WidenU8To16,
        /// The low elements, made wider.
        WidenU8To32,
        /// The low elements, made wider.
        WidenU8To64,
        /// The low elements, made wider.
        WidenU16To32,
        /// The low elements, made wider.
        WidenU16To64,
        /// The low elements, made wider.
        WidenU32To64,
    }
}

operations! {
    /// Operations on one vector and a constant byte.
    VImm {
        /// Shifted left; 0 if the constant is too great.
        Shl16,
        /// As [`VImm::Shl16`].
        Shl32,
        /// As [`VImm::Shl16`].
        Shl64,
        /// Shifted right; 0 if the constant is too great.
        Shr16,
        /// As [`VImm::Shr16`].
        Shr32,
        /// As [`VImm::Shr16`].
        Shr64,
        /// Shifted right with the sign; only the sign if the constant is too great.
        Sar16,
        /// As [`VImm::Sar16`].
        Sar32,
        /// The whole vector, up by that many bytes.
        ShlBytes,
        /// The whole vector, down by that many bytes.
        ShrBytes,
        /// Dwords, chosen by two bits each.
        Shuffle32,
        /// Words of the low half, chosen by two bits each; the high half stays.
        ShuffleLow16,
        /// Words of the high half, chosen by two bits each; the low half stays.
        ShuffleHigh16,
    }
}

operations! {
    /// Operations on two vectors and a constant byte.
    VImm2 {
        /// 16 bytes from that byte on of the second vector with the first above it, and 0 above that.
        Align,
        /// Words of the second where the constant's bit is set, else of the first.
        Blend16,
        /// Two dwords of the first, then two of the second, chosen by two bits each.
        Shuffle32,
        /// A quadword of the first, then one of the second, chosen by a bit each (bits 0 and 1).
        Shuffle64,
    }
}

operations! {
    /// Conversions of packed numbers.
    VConvert {
        /// Four dwords to binary32.
        I32ToF32,
        /// Two dwords, the low ones, to binary64.
        I32ToF64,
        /// Four binary32 to dwords.
        F32ToI32,
        /// Likewise, toward zero.
        F32ToI32Cut,
        /// Two binary64 to the low dwords; the high ones are 0.
        F64ToI32,
        /// Likewise, toward zero.
        F64ToI32Cut,
        /// Two binary32, the low ones, to binary64.
        F32ToF64,
        /// Two binary64 to the low binary32; the high ones are 0.
        F64ToF32,
    }
}

//! The Huffman code of field strings (RFC 7541 appendix B, which RFC 9204 §4.1.2 uses).
//!
//! The code is canonical: the lengths of its codes determine them.

use super::Refused;

/// Bits of the code of each byte.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26,
];

/// Bits of the longest code. It is that of the end of the string, which never occurs (RFC 7541 §5.2).
const LENGTH_MAX: usize = 30;

/// The bytes in the order of their codes, and where those of each length begin.
struct HuffmanCode {
    symbols: [u8; 256],
    /// By length: the first code of that length, the number of codes, and the index of the first symbol.
    lengths: [(u32, u32, usize); LENGTH_MAX + 1],
}

const CODE: HuffmanCode = {
    let mut code = HuffmanCode { symbols: [0; 256], lengths: [(0, 0, 0); LENGTH_MAX + 1] };
    let (mut next, mut index, mut length) = (0, 0, 1);
    while length <= LENGTH_MAX {
        next <<= 1;
        let first = index;
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                code.symbols[index] = symbol as u8;
                index += 1;
            }
            symbol += 1;
        }
        let count = (index - first) as u32;
        code.lengths[length] = (next, count, first);
        next += count;
        length += 1;
    }
    code
};

/// The string that these bytes encode.
///
/// # Errors
/// If they encode none.
pub(super) fn decode(encoded: &[u8]) -> Result<Vec<u8>, Refused> {
    // The shortest code has 5 bits.
    let mut decoded = Vec::with_capacity(encoded.len() * 8 / 5);
    let (mut code, mut length) = (0_u32, 0);
    let bits = encoded.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit & 1)));
    for bit in bits {
        code = code << 1 | bit;
        length += 1;
        let &(first, count, index) = CODE.lengths.get(length).ok_or_else(Refused::undecodable)?;
        if code.wrapping_sub(first) < count {
            decoded.push(CODE.symbols[index + (code - first) as usize]);
            (code, length) = (0, 0);
        }
    }
    // Fewer than 8 bits remain, all of them ones (RFC 7541 §5.2).
    if length < 8 && code == (1 << length) - 1 { Ok(decoded) } else { Err(Refused::undecodable()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc_decode() {
        let www = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decode(&www).unwrap(), b"www.example.com");
        assert_eq!(decode(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).unwrap(), b"no-cache");
        assert_eq!(decode(&[0xae, 0xc3, 0x77, 0x1a, 0x4b]).unwrap(), b"private");
        assert_eq!(decode(&[]).unwrap(), b"");
    }

    #[test]
    fn padding_of_a_byte_or_of_zeros_is_refused() {
        // "a" has 5 bits: 00011.
        assert_eq!(decode(&[0b0001_1111]).unwrap(), b"a");
        assert!(decode(&[0b0001_1000]).is_err());
        assert!(decode(&[0b0001_1111, 0xff]).is_err());
        assert!(decode(&[0xff; 4]).is_err());
    }
}

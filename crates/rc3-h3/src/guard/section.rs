//! Field sections as QPACK encodes them (RFC 9204 §4.5), without a dynamic table: h3 allows its peers none.

use std::borrow::Cow;

use super::{Refused, huffman, static_table};

/// Name and value of a field.
pub(super) type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The fields of a section in their order.
pub(super) struct Section<'a> {
    rest: &'a [u8],
}

impl<'a> Section<'a> {
    /// # Errors
    /// If the section refers to a dynamic table.
    pub(super) fn new(encoded: &'a [u8]) -> Result<Self, Refused> {
        let mut section = Self { rest: encoded };
        let insert_count = section.integer(8)?;
        let _base = section.integer(7)?;
        if insert_count == 0 { Ok(section) } else { Err(Refused::undecodable()) }
    }

    /// The next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Refused> {
        let Some(&first) = self.rest.first() else { return Ok(None) };
        let field = match first >> 4 {
            // Indexed, of the static table.
            0b1100..=0b1111 => {
                let (name, value) = self.entry(6)?;
                (name.into(), value.into())
            }
            // The name of an entry of the static table.
            0b0101 | 0b0111 => (self.entry(4)?.0.into(), self.string(7)?),
            0b0010 | 0b0011 => (self.string(3)?, self.string(7)?),
            // Those of the dynamic table.
            _ => return Err(Refused::undecodable()),
        };
        Ok(Some(field))
    }

    fn entry(&mut self, bits: u32) -> Result<(&'static [u8], &'static [u8]), Refused> {
        static_table::entry(self.integer(bits)?).ok_or_else(Refused::undecodable)
    }

    /// A string whose length has this many bits in the first byte, below the flag of the Huffman code (RFC 9204 §4.1.2).
    fn string(&mut self, bits: u32) -> Result<Cow<'a, [u8]>, Refused> {
        let is_huffman = self.rest.first().is_some_and(|first| first >> bits & 1 == 1);
        let len = self.integer(bits)?;
        let (encoded, rest) = self.rest.split_at_checked(len).ok_or_else(Refused::undecodable)?;
        self.rest = rest;
        Ok(if is_huffman { huffman::decode(encoded)?.into() } else { encoded.into() })
    }

    /// An integer with this many bits in the first byte (RFC 7541 §5.1).
    fn integer(&mut self, bits: u32) -> Result<usize, Refused> {
        let most = (1 << bits) - 1;
        let value = usize::from(self.byte()?) & most;
        if value < most {
            return Ok(value);
        }
        let mut value = value as u64;
        // More are above 2^32, and no length here is.
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).map_err(|_| Refused::undecodable());
            }
        }
        Err(Refused::undecodable())
    }

    fn byte(&mut self) -> Result<u8, Refused> {
        let (&first, rest) = self.rest.split_first().ok_or_else(Refused::undecodable)?;
        self.rest = rest;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(encoded: &[u8]) -> Result<Vec<(String, String)>, Refused> {
        let mut section = Section::new(encoded)?;
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        while let Some((name, value)) = section.next()? {
            fields.push((text(&name), text(&value)));
        }
        Ok(fields)
    }

    /// RFC 9204 appendix B.1.
    #[test]
    fn the_example_of_the_rfc_decodes() {
        let encoded = [b"\x00\x00\x51\x0b".as_slice(), b"/index.html"].concat();
        assert_eq!(fields(&encoded).unwrap(), [(":path".to_owned(), "/index.html".to_owned())]);
        let last = fields(&[0, 0, 0xff, 98 - 63]).unwrap();
        assert_eq!(last, [("x-frame-options".to_owned(), "sameorigin".to_owned())]);
    }

    #[test]
    fn what_refers_to_no_entry_or_a_dynamic_one_is_refused() {
        let sections: [&[u8]; 7] = [
            &[],
            &[0],
            &[1, 0],
            &[0, 0, 0xff, 99 - 63],
            &[0, 0, 0x80],
            &[0, 0, 0x10],
            &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ];
        for section in sections {
            assert_eq!(fields(section), Err(Refused::undecodable()), "{section:?}");
        }
    }

    #[test]
    fn a_section_cut_anywhere_is_refused_or_shorter() {
        let encoded = [b"\x00\x00\x51\x0b".as_slice(), b"/index.html", b"\x27\x01abcdefgh\x02xy"].concat();
        assert_eq!(fields(&encoded).unwrap().len(), 2);
        for len in 0..encoded.len() {
            assert!(fields(&encoded[..len]).is_err() || len == 2 || len == 15, "{len}");
        }
    }
}

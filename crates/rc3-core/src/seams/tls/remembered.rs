//! The transport parameters that a client stores with a session, for its early data (RFC 9000 §7.4.1).
//!
//! If a server rejects early data, quinn-proto 0.11.19 continues with the stored limit on the data of all streams, also
//! when the server's has become smaller; data beyond that ends the connection. So no larger limit is stored than early
//! data needs, which is one congestion window.

use crate::wire::varint::{self, Reader};

/// `initial_max_data` (RFC 9000 §18.2).
const INITIAL_MAX_DATA: u64 = 0x04;

/// Bytes of early data on the primary: several initial windows (RFC 9002 §7.2).
const EARLY_DATA_MAX: u64 = 64 << 10;

/// `params` with that limit at most; `None` if they are malformed.
pub(super) fn for_early_data(params: &[u8]) -> Option<Vec<u8>> {
    let mut stored = Vec::with_capacity(params.len());
    let mut reader = Reader::new(params);
    while !reader.is_empty() {
        let (id, len) = (reader.varint()?, reader.varint()?);
        let mut value = reader.take(len)?.to_vec();
        if id == INITIAL_MAX_DATA {
            let (limit, _) = varint::parse(&value)?;
            value.clear();
            varint::emit(limit.min(EARLY_DATA_MAX), &mut value);
        }
        varint::emit(id, &mut stored);
        varint::emit(value.len() as u64, &mut stored);
        stored.extend_from_slice(&value);
    }
    Some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id, length and value.
    fn param(id: u64, value: &[u8]) -> Vec<u8> {
        let mut param = Vec::new();
        varint::emit(id, &mut param);
        varint::emit(value.len() as u64, &mut param);
        param.extend_from_slice(value);
        param
    }

    fn max_data(bytes: u64) -> Vec<u8> {
        let mut value = Vec::new();
        varint::emit(bytes, &mut value);
        param(INITIAL_MAX_DATA, &value)
    }

    #[test]
    fn only_the_limit_on_data_changes() {
        let others = [param(0x05, &[0x80, 1, 0, 0]), param(0x2ab2, &[]), param(0x0f, &[7; 20])];
        let with = |data: Vec<u8>| [others[0].clone(), data, others[1].clone(), others[2].clone()].concat();
        for (sent, stored) in [(0, 0), (EARLY_DATA_MAX, EARLY_DATA_MAX), (4 << 20, EARLY_DATA_MAX)] {
            assert_eq!(for_early_data(&with(max_data(sent))), Some(with(max_data(stored))));
        }
        assert_eq!(for_early_data(&others.concat()), Some(others.concat()));
        assert_eq!(for_early_data(&[]), Some(Vec::new()));
    }

    #[test]
    fn malformed_parameters_are_refused() {
        let whole = [param(0x05, &[1]), max_data(9)].concat();
        assert!((1..whole.len()).filter(|&cut| cut != 3).all(|cut| for_early_data(&whole[..cut]).is_none()));
        assert_eq!(for_early_data(&param(INITIAL_MAX_DATA, &[])), None);
        assert_eq!(for_early_data(&[4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
    }
}

//! Maps by number.

use rustc_hash::FxHashMap;

/// A map by number: connection or stream. These are counted up and few at a time, so a peer cannot choose them
/// to collide, and the lookups of every datagram and read need no keyed hash.
pub(crate) type Map<K, V> = FxHashMap<K, V>;

//! A sorted map by stream offset that needs no allocation while it has at most one entry.
//!
//! Most streams have one run of bytes in each of their sets, or none: a tree would cost a node of several hundred bytes
//! for each, which it keeps when it becomes empty. The invariant: two or more entries are in a tree, fewer are not.

use std::{
    collections::{BTreeMap, btree_map},
    fmt, mem,
    ops::RangeBounds,
    option,
};

/// Entries by offset, lowest first; named as in [`BTreeMap`].
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OffsetMap<V>(Entries<V>);

#[derive(Clone, PartialEq, Eq)]
enum Entries<V> {
    None,
    One(u64, V),
    Many(BTreeMap<u64, V>),
}

impl<V> OffsetMap<V> {
    pub(crate) const fn new() -> Self {
        Self(Entries::None)
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.0, Entries::None)
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Entries::None => 0,
            Entries::One(..) => 1,
            Entries::Many(tree) => tree.len(),
        }
    }

    /// Adds an entry, or replaces the one at the same offset.
    pub(crate) fn insert(&mut self, offset: u64, value: V) {
        self.0 = match mem::replace(&mut self.0, Entries::None) {
            Entries::None => Entries::One(offset, value),
            Entries::One(other, _) if other == offset => Entries::One(offset, value),
            Entries::One(other, first) => Entries::Many(BTreeMap::from([(other, first), (offset, value)])),
            Entries::Many(mut tree) => {
                tree.insert(offset, value);
                Entries::Many(tree)
            }
        };
    }

    pub(crate) fn remove(&mut self, offset: u64) -> Option<V> {
        match &mut self.0 {
            Entries::None => None,
            Entries::One(other, _) if *other != offset => None,
            Entries::One(..) => match mem::replace(&mut self.0, Entries::None) {
                Entries::One(_, value) => Some(value),
                Entries::None | Entries::Many(_) => None,
            },
            Entries::Many(tree) => {
                let value = tree.remove(&offset)?;
                if tree.len() == 1
                    && let Some((offset, last)) = tree.pop_first()
                {
                    self.0 = Entries::One(offset, last);
                }
                Some(value)
            }
        }
    }

    pub(crate) fn get(&self, offset: u64) -> Option<&V> {
        match &self.0 {
            Entries::One(other, value) if *other == offset => Some(value),
            Entries::None | Entries::One(..) => None,
            Entries::Many(tree) => tree.get(&offset),
        }
    }

    pub(crate) fn get_mut(&mut self, offset: u64) -> Option<&mut V> {
        match &mut self.0 {
            Entries::One(other, value) if *other == offset => Some(value),
            Entries::None | Entries::One(..) => None,
            Entries::Many(tree) => tree.get_mut(&offset),
        }
    }

    pub(crate) fn first_key_value(&self) -> Option<(&u64, &V)> {
        match &self.0 {
            Entries::None => None,
            Entries::One(offset, value) => Some((offset, value)),
            Entries::Many(tree) => tree.first_key_value(),
        }
    }

    pub(crate) fn last_key_value(&self) -> Option<(&u64, &V)> {
        match &self.0 {
            Entries::None => None,
            Entries::One(offset, value) => Some((offset, value)),
            Entries::Many(tree) => tree.last_key_value(),
        }
    }

    pub(crate) fn iter(&self) -> Range<'_, V> {
        self.range(..)
    }

    /// The entries with these offsets.
    ///
    /// # Panics
    /// As [`BTreeMap::range`], if there are two entries or more.
    pub(crate) fn range(&self, offsets: impl RangeBounds<u64>) -> Range<'_, V> {
        match &self.0 {
            Entries::One(offset, value) if offsets.contains(offset) => {
                Range::One(Some((offset, value)).into_iter())
            }
            Entries::None | Entries::One(..) => Range::One(None.into_iter()),
            Entries::Many(tree) => Range::Many(tree.range(offsets)),
        }
    }

    /// The last entry with such an offset.
    ///
    /// # Panics
    /// As [`Self::range`].
    pub(crate) fn last_in_mut(&mut self, offsets: impl RangeBounds<u64>) -> Option<(&u64, &mut V)> {
        match &mut self.0 {
            Entries::One(offset, value) if offsets.contains(offset) => Some((offset, value)),
            Entries::None | Entries::One(..) => None,
            Entries::Many(tree) => tree.range_mut(offsets).next_back(),
        }
    }
}

impl<V> Default for OffsetMap<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for OffsetMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Iterator of [`OffsetMap::range`], lowest offset first.
pub(crate) enum Range<'a, V> {
    One(option::IntoIter<(&'a u64, &'a V)>),
    Many(btree_map::Range<'a, u64, V>),
}

impl<'a, V> Iterator for Range<'a, V> {
    type Item = (&'a u64, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(entry) => entry.next(),
            Self::Many(entries) => entries.next(),
        }
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(entry) => entry.next_back(),
            Self::Many(entries) => entries.next_back(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_a_tree_would_be(
            changes in prop::collection::vec((any::<bool>(), 0..4u64, any::<u8>()), 0..40),
            from in 0..5u64,
            len in 0..5u64,
        ) {
            let (mut map, mut tree) = (OffsetMap::new(), BTreeMap::new());
            for (insert, offset, value) in changes {
                if insert {
                    map.insert(offset, value);
                    tree.insert(offset, value);
                } else {
                    prop_assert_eq!(map.remove(offset), tree.remove(&offset));
                }
                prop_assert_eq!(matches!(map.0, Entries::Many(_)), tree.len() > 1);
                prop_assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
                prop_assert!(map.iter().eq(&tree));
                prop_assert!(map.iter().rev().eq(tree.iter().rev()));
                let range = from..from + len;
                prop_assert!(map.range(range.clone()).eq(tree.range(range.clone())));
                prop_assert_eq!(
                    map.last_in_mut(range.clone()).map(|(&offset, value)| (offset, *value)),
                    tree.range(range).next_back().map(|(&offset, &value)| (offset, value))
                );
                prop_assert_eq!(map.get(from), tree.get(&from));
                prop_assert_eq!(map.get_mut(from), tree.get_mut(&from));
                prop_assert_eq!(map.first_key_value(), tree.first_key_value());
                prop_assert_eq!(map.last_key_value(), tree.last_key_value());
            }
        }
    }
}

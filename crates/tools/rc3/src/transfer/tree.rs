//! BLAKE3 of a file whose bytes arrive in any order.
//!
//! BLAKE3 is a binary tree over chunks, so a part of a file aligned to its grid can be hashed separately, and two
//! neighbours give the hash of their parent. A file is divided into groups of [`GROUP`] bytes. Invariant: the nodes
//! cover each hashed group once, and two complete siblings are merged into one node, except below the root. A file
//! hashed from both ends therefore has a few dozen nodes, which fit into a small record.
//!
//! All offsets and lengths are bytes of the file.

use std::{collections::BTreeMap, io};

use blake3::{
    Hash, Hasher,
    hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root},
};
use rc3_core::{internals::SpanSet, units::Span};
use serde::{Deserialize, Serialize};

/// Bytes of a group; the last one of a file may be shorter.
pub const GROUP: u64 = 256 << 10;

/// A hashed subtree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its first group.
    pub group: u64,
    /// It covers 2 to this power groups, fewer only at the end of the file.
    pub level: u8,
    /// Its chaining value.
    pub value: ChainingValue,
}

/// The hash tree of one file, as far as known.
#[derive(Debug, Clone)]
pub struct Tree {
    len: u64,
    /// By first group.
    nodes: BTreeMap<u64, (u8, ChainingValue)>,
    /// The hash of a file that has only one group, the root.
    root: Option<Hash>,
}

impl Tree {
    /// The tree of a file of `len` bytes without hashed groups.
    pub fn new(len: u64) -> Self {
        Self { len, nodes: BTreeMap::new(), root: (len == 0).then(|| blake3::hash(&[])) }
    }

    fn groups(&self) -> u64 {
        self.len.div_ceil(GROUP)
    }

    /// The groups that a node covers.
    pub fn groups_of(&self, node: Node) -> impl Iterator<Item = u64> + use<> {
        node.group..node.group.saturating_add(1 << node.level).min(self.groups())
    }

    /// The byte range of a group.
    pub fn span(&self, group: u64) -> Span {
        let start = group.saturating_mul(GROUP).min(self.len);
        Span::new(start, start.saturating_add(GROUP).min(self.len))
    }

    /// Whether a group is hashed.
    pub fn contains(&self, group: u64) -> bool {
        match self.nodes.range(..=group).next_back() {
            Some((&first, &(level, _))) => group - first < 1 << level,
            None => group == 0 && self.root.is_some(),
        }
    }

    /// A hasher for the bytes of a group, for [`Self::insert`].
    pub fn hasher(&self, group: u64) -> Hasher {
        let mut hasher = Hasher::new();
        if self.groups() > 1 {
            hasher.set_input_offset(group * GROUP);
        }
        hasher
    }

    /// `hasher` has all bytes of the group.
    pub fn insert(&mut self, group: u64, hasher: &Hasher) {
        if self.contains(group) {
            return;
        }
        if self.groups() == 1 {
            self.root = Some(hasher.finalize());
        } else {
            self.merge(group, 0, hasher.finalize_non_root());
        }
    }

    /// Adds a node, and its ancestors as far as both halves exist.
    fn merge(&mut self, mut group: u64, mut level: u8, mut value: ChainingValue) {
        // The root is hashed differently, at the end.
        while level < 62 && self.groups() > 2 << level {
            let sibling = group ^ (1 << level);
            match self.nodes.get(&sibling) {
                Some(&(at, other)) if at == level => {
                    self.nodes.remove(&sibling);
                    let (left, right) = if sibling < group { (other, value) } else { (value, other) };
                    value = merge_subtrees_non_root(&left, &right, Mode::Hash);
                    group = group.min(sibling);
                    level += 1;
                }
                _ => break,
            }
        }
        self.nodes.insert(group, (level, value));
    }

    /// Accepts a node from an earlier run; returns whether it fits into this tree.
    pub fn restore(&mut self, node: Node) -> bool {
        let Some(width) = 1u64.checked_shl(node.level.into()).filter(|_| node.level < 62) else {
            return false;
        };
        let fits = self.groups() > 1 && node.group.is_multiple_of(width) && node.group < self.groups();
        let free = !self.contains(node.group)
            && self.nodes.range(node.group..node.group.saturating_add(width)).next().is_none();
        if !fits || width >= self.groups() || !free {
            return false;
        }
        self.merge(node.group, node.level, node.value);
        true
    }

    /// The nodes in order; none for a file of one group.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.nodes.iter().map(|(&group, &(level, value))| Node { group, level, value })
    }

    /// The hashed ranges.
    pub fn hashed(&self) -> SpanSet {
        let mut hashed = SpanSet::default();
        for node in self.nodes() {
            let end = node.group.saturating_add(1 << node.level).saturating_mul(GROUP).min(self.len);
            hashed.insert(Span::new(node.group * GROUP, end));
        }
        if self.root.is_some() {
            hashed.insert(Span::new(0, self.len));
        }
        hashed
    }

    /// The file's hash, once complete.
    pub fn root(&self) -> Option<Hash> {
        if self.groups() <= 1 {
            return self.root;
        }
        if !self.hashed().contains(Span::new(0, self.len)) {
            return None;
        }
        // Subtrees become smaller to the right; merge the smallest two first.
        let mut rest = self.nodes.values().map(|&(_, value)| value);
        let first = rest.next()?;
        let right = rest.rev().reduce(|right, left| merge_subtrees_non_root(&left, &right, Mode::Hash))?;
        Some(merge_subtrees_root(&first, &right, Mode::Hash))
    }
}

/// Hashes the bytes of a file as they pass, in any order, and reads back only groups that arrived in pieces.
#[derive(Debug)]
pub struct Passing {
    tree: Tree,
    passed: SpanSet,
    /// The group that is being hashed, and how far.
    current: Option<(Hasher, u64)>,
}

impl Passing {
    /// Continues a tree.
    pub fn new(tree: Tree) -> Self {
        Self { passed: tree.hashed(), tree, current: None }
    }

    /// The tree so far.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Bytes of the file at `offset` pass; `read_back` fills a buffer with bytes that passed before.
    ///
    /// # Errors
    /// When they cannot be read back.
    pub fn update(
        &mut self,
        offset: u64,
        bytes: &[u8],
        read_back: impl Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let all = Span::new(offset, offset.saturating_add(bytes.len() as u64).min(self.tree.len));
        self.passed.insert(all);
        let mut at = all.start;
        while at < all.end {
            let group = at / GROUP;
            let span = self.tree.span(group);
            let end = span.end.min(all.end);
            if !self.tree.contains(group) {
                let piece = &bytes[(at - offset) as usize..(end - offset) as usize];
                self.pass(group, Span::new(at, end), piece);
                if !self.tree.contains(group) && self.passed.contains(span) {
                    self.read(group, &read_back)?;
                }
            }
            at = end;
        }
        Ok(())
    }

    fn pass(&mut self, group: u64, at: Span, piece: &[u8]) {
        let span = self.tree.span(group);
        if at == span {
            let mut hasher = self.tree.hasher(group);
            self.tree.insert(group, hasher.update(piece));
            return;
        }
        if at.start == span.start && self.current.is_none() {
            self.current = Some((self.tree.hasher(group), at.start));
        }
        if let Some((hasher, to)) = self.current.as_mut().filter(|(_, to)| *to == at.start) {
            hasher.update(piece);
            *to = at.end;
            if at.end == span.end {
                self.tree.insert(group, hasher);
                self.current = None;
            }
        }
    }

    fn read(&mut self, group: u64, read_back: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<()> {
        let span = self.tree.span(group);
        let mut buf = vec![0; span.len() as usize];
        read_back(&mut buf, span.start)?;
        let mut hasher = self.tree.hasher(group);
        self.tree.insert(group, hasher.update(&buf));
        if self.current.as_ref().is_some_and(|(_, to)| span.start <= *to && *to <= span.end) {
            self.current = None;
        }
        Ok(())
    }

    /// Reads all bytes that have not passed; returns the hash of the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn finish(&mut self, read_back: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<Hash> {
        let hashed = self.tree.hashed();
        let missing: Vec<Span> = hashed.gaps(Span::new(0, self.tree.len)).collect();
        for group in missing.iter().flat_map(|gap| gap.start / GROUP..gap.end.div_ceil(GROUP)) {
            self.read(group, &read_back)?;
        }
        // With every group hashed, a tree has a root.
        self.tree.root().ok_or_else(|| io::Error::other("a file without a hash"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(len: u64) -> Vec<u8> {
        (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
    }

    fn reading(content: &[u8]) -> impl Fn(&mut [u8], u64) -> io::Result<()> {
        |buf, offset| {
            buf.copy_from_slice(&content[offset as usize..][..buf.len()]);
            Ok(())
        }
    }

    fn group_hasher(tree: &Tree, content: &[u8], group: u64) -> Hasher {
        let span = tree.span(group);
        let mut hasher = tree.hasher(group);
        hasher.update(&content[span.start as usize..span.end as usize]);
        hasher
    }

    #[test]
    fn the_root_is_the_hash_of_the_file_whatever_the_order() {
        for groups in 1..=9 {
            for len in [(groups - 1) * GROUP + 1, groups * GROUP - 1, groups * GROUP] {
                let content = content(len);
                let whole = blake3::hash(&content);
                let up: Vec<u64> = (0..groups).collect();
                let down: Vec<u64> = (0..groups).rev().collect();
                let odd: Vec<u64> = (0..groups).step_by(2).chain((1..groups).step_by(2)).collect();
                for order in [up, down, odd] {
                    let mut tree = Tree::new(len);
                    for &group in &order {
                        assert_eq!(tree.root(), None);
                        tree.insert(group, &group_hasher(&tree, &content, group));
                        assert!(tree.contains(group));
                    }
                    assert_eq!(tree.root(), Some(whole), "{len} bytes, {order:?}");
                }
            }
        }
    }

    #[test]
    fn a_file_hashed_from_both_ends_has_few_nodes() {
        let groups = 1 << 12;
        let mut tree = Tree::new(groups * GROUP);
        for at in 0..groups / 2 - 100 {
            for group in [at, groups - 1 - at] {
                // The values are arbitrary here.
                tree.merge(group, 0, [0; 32]);
            }
        }
        assert!(tree.nodes().count() < 40, "{}", tree.nodes().count());
    }

    #[test]
    fn nodes_are_restored_and_nonsense_is_not() {
        let len = 7 * GROUP + 5;
        let content = content(len);
        let mut tree = Tree::new(len);
        for group in [0, 1, 2, 3, 6, 7] {
            tree.insert(group, &group_hasher(&tree, &content, group));
        }
        let mut again = Tree::new(len);
        assert!(tree.nodes().all(|node| again.restore(node)));
        assert_eq!(again.hashed(), tree.hashed());
        for (group, level) in
            [(0, 0), (2, 1), (1, 1), (4, 3), (0, 3), (8, 0), (0, 62), (0, 255), (u64::MAX, 0)]
        {
            assert!(!again.restore(Node { group, level, value: [0; 32] }), "{group} {level}");
        }
        for group in [4, 5] {
            again.insert(group, &group_hasher(&again, &content, group));
        }
        assert_eq!(again.root(), Some(blake3::hash(&content)));
    }

    #[test]
    fn empty_files_have_a_hash() {
        assert_eq!(Tree::new(0).root(), Some(blake3::hash(&[])));
        assert_eq!(Passing::new(Tree::new(0)).finish(|_, _| unreachable!()).unwrap(), blake3::hash(&[]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn bytes_that_pass_in_any_order_make_the_hash(
            len in 0..5 * GROUP,
            cuts in proptest::collection::vec(0..5 * GROUP, 0..12),
            seed in any::<u64>(),
            left_out in 0..4usize,
        ) {
            let content = content(len);
            let mut cuts: Vec<u64> = cuts.into_iter().filter(|&cut| cut < len).chain([0, len]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut pieces: Vec<(u64, u64)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
            pieces.sort_by_key(|piece| piece.0.wrapping_add(1).wrapping_mul(seed | 1));
            let mut passing = Passing::new(Tree::new(len));
            for &(start, end) in pieces.iter().skip(left_out) {
                passing.update(start, &content[start as usize..end as usize], reading(&content)).unwrap();
            }
            prop_assert_eq!(passing.finish(reading(&content)).unwrap(), blake3::hash(&content));
        }
    }
}

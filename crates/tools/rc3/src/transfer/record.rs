//! The record of an arriving file, from which a later run can resume.
//!
//! The record names the file as the manifest does and holds the [`Tree`] over the data in place. Invariant: the bytes
//! were written before the record that lists them. Only the run that wrote a record can be sure of its origin, by a
//! secret key; any other run uses the record as a hint and hashes the bytes again. So neither a forged record nor a
//! disk that stored the record but not the bytes can corrupt a file.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{
    expected::Expected,
    paths::TAG_LETTERS,
    tree::{Node, Tree},
};

/// Version of the format.
const VERSION: u16 = 3;
/// Most subtrees in a record; bytes beyond them are received again. A file hashed from both ends has a few dozen.
const NODES_MAX: usize = 1 << 15;
/// Most bytes of a record.
pub const RECORD_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u16,
    /// The file: [`identity`].
    identity: [u8; 32],
    nodes: Vec<Node>,
}

/// Identifies the expected file: its path, length, holes and time of last change.
fn identity(expected: &Expected) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(expected.path.as_bytes());
    hasher.update(&[0]);
    hasher.update(&expected.bytes.to_le_bytes());
    for (start, end) in expected.holes.said() {
        hasher.update(&start.to_le_bytes()).update(&end.to_le_bytes());
    }
    if let Some(modified) = expected.modified {
        let nanos = match modified.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        hasher.update(&nanos.to_le_bytes());
    }
    hasher.finalize()
}

/// A short tag that is the same for the same file.
pub fn tag(expected: &Expected) -> String {
    identity(expected).to_hex().chars().take(TAG_LETTERS).collect()
}

/// A record of `tree`, followed by a checksum under the run's key.
pub fn write(expected: &Expected, tree: &Tree, key: &[u8; 32]) -> Vec<u8> {
    let nodes = tree.nodes().take(NODES_MAX).collect();
    let record = Record { version: VERSION, identity: *identity(expected).as_bytes(), nodes };
    // Serializing into a vector cannot fail for this type.
    let mut bytes = postcard::to_stdvec(&record).unwrap_or_default();
    let checksum = blake3::keyed_hash(key, &bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes
}

/// Parses a record, if it is about this file and valid: the parts in place with their hashes, and whether this run wrote it. If
/// not, they should be in place.
pub fn read(expected: &Expected, bytes: &[u8], key: &[u8; 32]) -> Option<(Tree, bool)> {
    let (body, checksum) = bytes.split_last_chunk::<32>()?;
    let record: Record = postcard::from_bytes(body).ok()?;
    if record.version != VERSION || record.identity != *identity(expected).as_bytes() {
        return None;
    }
    let mut tree = Tree::new(expected.data().len());
    if !record.nodes.iter().all(|&node| tree.restore(node)) {
        return None;
    }
    Some((tree, blake3::keyed_hash(key, body) == *checksum))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{paths::SafePath, tree::GROUP},
        *,
    };

    const KEY: [u8; 32] = [7; 32];

    fn expected(path: &str, bytes: u64) -> Expected {
        let path = SafePath::parse(path.as_bytes()).unwrap();
        Expected { modified: Some(UNIX_EPOCH), ..Expected::new(path, bytes) }
    }

    #[test]
    fn records_are_read_back_for_the_same_file_and_believed_by_the_same_run_only() {
        let file = expected("a/b", 5 * GROUP);
        let mut tree = Tree::new(file.bytes);
        for group in [0, 1, 4] {
            tree.insert(group, tree.hasher(group).update(&vec![7; GROUP as usize]));
        }
        let bytes = write(&file, &tree, &KEY);
        let Some((read_back, true)) = read(&file, &bytes, &KEY) else { panic!("not believed") };
        assert_eq!(read_back.hashed(), tree.hashed());
        let Some((read_back, false)) = read(&file, &bytes, &[8; 32]) else { panic!("believed") };
        assert_eq!(read_back.hashed(), tree.hashed());
        for other in [
            expected("a/c", 5 * GROUP),
            expected("a/b", 5 * GROUP + 1),
            Expected { modified: None, ..file.clone() },
        ] {
            assert!(read(&other, &bytes, &KEY).is_none());
            assert_ne!(tag(&other), tag(&file));
        }
        // Torn or forged anywhere: rejected.
        for at in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert!(!matches!(read(&file, &torn, &KEY), Some((_, true))), "{at}");
            assert!(!matches!(read(&file, &bytes[..at], &KEY), Some((_, true))), "{at}");
        }
    }
}

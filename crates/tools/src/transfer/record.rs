//! What a receiver writes down about a file on its way, so that a later run can go on with it.
//!
//! The record names the file as the manifest does and holds the [`Tree`] over what is in place. Invariant: what
//! a record says is in place was written before the record was. After a restart of the system that is not
//! enough, since the disk may have got the one and not the other: then the bytes are hashed again.

use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{
    manifest::Expected,
    tree::{Node, Tree},
};

/// The form of a record.
const VERSION: u16 = 1;
/// Subtrees in a record; what is beyond is received again. A file hashed from both ends has a few dozen.
const NODES_MAX: usize = 1 << 15;
/// Bytes of a record at most.
pub const RECORD_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u16,
    /// Which file this is: [`identity`].
    identity: [u8; 32],
    /// The run of the system.
    boot: Option<String>,
    nodes: Vec<(u64, u8, [u8; 32])>,
}

/// What a record tells.
#[derive(Debug)]
pub enum Known {
    /// These parts are in place, with these hashes.
    Hashed(Tree),
    /// The tree says which parts should be in place; they must be hashed again.
    Written(Tree),
}

/// A name for what is expected: where it goes, how long it is, when it was changed last.
fn identity(expected: &Expected) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(expected.path.as_str().as_bytes());
    hasher.update(&[0]);
    hasher.update(&expected.bytes.to_le_bytes());
    if let Some(modified) = expected.modified {
        let nanos = match modified.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        hasher.update(&nanos.to_le_bytes());
    }
    hasher.finalize()
}

/// A few letters that are the same for the same file.
pub fn tag(expected: &Expected) -> String {
    identity(expected).to_hex().chars().take(8).collect()
}

/// A record of `tree`, with a checksum behind it.
pub fn write(expected: &Expected, tree: &Tree) -> Vec<u8> {
    let nodes = tree.nodes().take(NODES_MAX).map(|node| (node.group, node.level, node.value)).collect();
    let record = Record { version: VERSION, identity: *identity(expected).as_bytes(), boot: boot(), nodes };
    // Serialising into a vector cannot fail for this type.
    let mut bytes = postcard::to_stdvec(&record).unwrap_or_default();
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes
}

/// Reads a record, if it is whole and about this file.
pub fn read(expected: &Expected, bytes: &[u8]) -> Option<Known> {
    let (body, checksum) = bytes.split_last_chunk::<32>()?;
    if blake3::hash(body) != *checksum {
        return None;
    }
    let record: Record = postcard::from_bytes(body).ok()?;
    if record.version != VERSION || record.identity != *identity(expected).as_bytes() {
        return None;
    }
    let mut tree = Tree::new(expected.bytes);
    let fits = |&(group, level, value): &(u64, u8, [u8; 32])| tree.restore(Node { group, level, value });
    if !record.nodes.iter().all(fits) {
        return None;
    }
    let same_run = record.boot.is_some() && record.boot == boot();
    Some(if same_run { Known::Hashed(tree) } else { Known::Written(tree) })
}

/// What Linux calls the time since it was started; nothing elsewhere.
fn boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            paths::{Rules, SafePath},
            tree::GROUP,
        },
        *,
    };

    fn expected(path: &str, bytes: u64) -> Expected {
        let path = SafePath::parse(path, Rules::HERE).unwrap();
        Expected { path, bytes, executable: false, modified: Some(UNIX_EPOCH) }
    }

    #[test]
    fn records_are_read_back_for_the_same_file_only() {
        let file = expected("a/b", 5 * GROUP);
        let mut tree = Tree::new(file.bytes);
        for group in [0, 1, 4] {
            tree.insert(group, tree.hasher(group).update(&vec![7; GROUP as usize]));
        }
        let bytes = write(&file, &tree);
        let (Some(Known::Hashed(read_back)) | Some(Known::Written(read_back))) = read(&file, &bytes) else {
            panic!("not read back")
        };
        assert_eq!(read_back.hashed(), tree.hashed());
        for other in [
            expected("a/c", 5 * GROUP),
            expected("a/b", 5 * GROUP + 1),
            Expected { modified: None, ..file.clone() },
        ] {
            assert!(read(&other, &bytes).is_none());
            assert_ne!(tag(&other), tag(&file));
        }
        for at in [0, 40, bytes.len() - 1] {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert!(read(&file, &torn).is_none());
        }
        assert!(read(&file, &bytes[..bytes.len() - 40]).is_none());
        assert!(read(&file, &[]).is_none());
    }
}

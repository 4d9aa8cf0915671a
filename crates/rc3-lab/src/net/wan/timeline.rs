//! Which packets left towards the receiver when.

use std::{collections::BTreeMap, io, path::PathBuf};

use kickass::packet::Packet;

/// Nanoseconds of a bin.
const BIN: u64 = 10_000_000;

/// Bytes by bin of the monotonic clock, source and code point.
#[derive(Debug)]
pub(super) struct Timeline {
    file: PathBuf,
    bytes: BTreeMap<(u64, String, u8), u64>,
}

impl Timeline {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, bytes: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, now: u64, packet: &Packet) {
        let key = (now / BIN * BIN, packet.source().to_string(), packet.dscp());
        *self.bytes.entry(key).or_default() += packet.total_len() as u64;
    }

    /// Writes a row for each bin, source and code point.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut csv = csv::Writer::from_path(&self.file)?;
        csv.write_record(["ns", "source", "dscp", "bytes"])?;
        for ((ns, source, dscp), bytes) in &self.bytes {
            csv.serialize((ns, source, dscp, bytes))?;
        }
        csv.flush()
    }
}

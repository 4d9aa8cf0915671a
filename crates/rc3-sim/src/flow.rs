//! One flow over a [`Pair`], the way the papers measure it: connect, send, done at the last byte.

use std::time::Duration;

use bytes::{Buf, Bytes};
use rc3_core::{ConnectionHandle, ConnectionStats, Dir, ReadError, StreamId, WriteError};

use crate::Pair;

/// The result of a flow.
#[derive(Debug, Clone)]
pub struct FlowReport {
    /// From connect to the last byte at the receiver, handshake included.
    pub fct: Duration,
    /// The sender's counters.
    pub sender: ConnectionStats,
    /// The receiver's counters.
    pub receiver: ConnectionStats,
}

/// Byte `offset` of the test pattern: swapped or shifted parts differ from it.
pub fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Pair {
    /// Connects and sends `bytes` of the test pattern from client to server; `None` when they have not arrived
    /// within `limit`.
    ///
    /// # Panics
    /// When a byte arrives changed, twice or out of order, or the stream fails.
    pub fn flow(&mut self, bytes: u64, limit: Duration) -> Option<FlowReport> {
        self.flow_watched(bytes, limit, |_| ())
    }

    /// As [`Self::flow`]; `watch` sees the world before each step.
    ///
    /// # Panics
    /// As [`Self::flow`].
    pub fn flow_watched(
        &mut self,
        bytes: u64,
        limit: Duration,
        mut watch: impl FnMut(&Self),
    ) -> Option<FlowReport> {
        let start = self.now;
        let handle = self.connect();
        let left = (0..bytes).map(pattern).collect();
        let mut source = FlowSource { handle, stream: None, left, finished: false };
        let mut sink = FlowReader::default();
        let arrived = self.drive_until(limit, |pair| {
            watch(pair);
            source.pump(pair);
            sink.pump(pair) == Some(bytes)
        });
        let server = sink.handle?;
        arrived.then(|| FlowReport {
            fct: self.now - start,
            sender: self.client.connection(handle).expect("still there").stats(),
            receiver: self.server.connection(server).expect("still there").stats(),
        })
    }
}

struct FlowSource {
    handle: ConnectionHandle,
    stream: Option<StreamId>,
    /// Not taken yet.
    left: Bytes,
    finished: bool,
}

impl FlowSource {
    fn pump(&mut self, pair: &mut Pair) {
        if self.finished {
            return;
        }
        if self.stream.is_none() {
            self.stream = pair.client.with(self.handle, |connection| connection.open(Dir::Uni));
        }
        let Some(stream) = self.stream else { return };
        while !self.left.is_empty() {
            let data = self.left.slice(..self.left.len().min(1024 * 1024));
            match pair.client.with(self.handle, |connection| connection.write(stream, data)) {
                Ok(taken) => self.left.advance(taken),
                Err(WriteError::Blocked) => return,
                Err(error) => panic!("write failed: {error}"),
            }
        }
        self.finished = true;
        pair.client.with(self.handle, |connection| connection.finish(stream)).expect("an open stream");
    }
}

#[derive(Default)]
struct FlowReader {
    handle: Option<ConnectionHandle>,
    stream: Option<StreamId>,
    read: u64,
    ended: bool,
}

impl FlowReader {
    /// Reads what is there; the final size once the stream has ended.
    fn pump(&mut self, pair: &mut Pair) -> Option<u64> {
        if self.handle.is_none() {
            self.handle = pair.server.accepted.pop_front();
        }
        let handle = self.handle?;
        if let Some(reason) = pair.server.connection(handle).and_then(|connection| connection.lost()) {
            panic!("the server lost its connection after {} bytes: {reason}", self.read);
        }
        if self.stream.is_none() {
            self.stream = pair.server.with_reader(handle, |connection| connection.accept(Dir::Uni));
        }
        let stream = self.stream?;
        while !self.ended {
            match pair.server.with_reader(handle, |connection| connection.read(stream, usize::MAX, true)) {
                Ok(Some(chunk)) => {
                    assert_eq!(chunk.offset, self.read);
                    for &byte in &chunk.bytes {
                        assert_eq!(byte, pattern(self.read), "at {}", self.read);
                        self.read += 1;
                    }
                }
                Ok(None) => self.ended = true,
                Err(ReadError::Blocked) => return None,
                Err(error) => panic!("read failed: {error}"),
            }
        }
        Some(self.read)
    }
}

//! The application that receives a flow.

use std::time::Instant;

use rc3_core::{Connection, ConnectionHandle, Dir, Endpoint, StreamId};

use crate::agent::{Milestone, ReceiverCounters};

/// Reads one stream, in the order in which its bytes arrive, until it ends.
#[derive(Default)]
pub(super) struct StreamReader {
    stream: Option<StreamId>,
    ended: bool,
    over: bool,
}

impl StreamReader {
    /// Takes what is there.
    pub(super) fn read(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
    ) -> Option<Milestone> {
        if self.ended {
            return None;
        }
        self.ended = endpoint.with_reader(
            || now,
            handle,
            |connection| {
                self.stream = self.stream.or_else(|| connection.accept(Dir::Uni));
                self.stream.is_some_and(|stream| drain(connection, stream))
            },
        )?;
        if !self.ended {
            return None;
        }
        let received = endpoint.connection(handle)?.stats().received;
        Some(Milestone::LastByte(ReceiverCounters {
            primary_bytes: received.primary_bytes,
            rlp_bytes: received.rlp_bytes.iter().sum(),
        }))
    }

    pub(super) fn lost(&mut self) {
        self.over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }
}

/// Reads what is there; whether the stream has ended.
fn drain(connection: &mut Connection, stream: StreamId) -> bool {
    loop {
        match connection.read(stream, usize::MAX, false) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

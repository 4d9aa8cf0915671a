//! Counters of one socket; written by the socket, read from outside only.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use super::Outgoing;
use crate::sums::sums;

/// Counters of a socket since it was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams accepted by the kernel, each segment of a batch counted.
    pub sent_datagrams: u64,
    /// System calls made to send them, failed ones included.
    pub send_syscalls: u64,
    /// Sends refused because the send buffer was full.
    pub send_would_block: u64,
    /// Datagrams dropped because the host, the route or the queue refused them.
    pub send_drops: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// System calls that received at least one message.
    pub recv_syscalls: u64,
    /// System calls to receive that failed, except when nothing was available. They are repeated.
    pub recv_errors: u64,
    /// Messages received but unusable: truncated, or without a sender's address.
    pub recv_unusable: u64,
    /// Datagrams received in fragments; 0 if the system does not report it.
    pub fragmented_datagrams: u64,
    /// Those of them whose leading fragment was seen, so that its length is exact.
    pub exact_leading_lens: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full; 0 if the system does not report it. Wraps
    /// at 32 bits.
    pub recv_overflows: u64,
}

sums!(Stats:
    sent_datagrams, send_syscalls, send_would_block, send_drops,
    received_datagrams, recv_syscalls, recv_errors, recv_unusable,
    fragmented_datagrams, exact_leading_lens, recv_overflows
);

/// The live counters behind [`Stats`]. The task of the socket has the lock nearly always to itself.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Stats>);

impl Counters {
    pub(super) fn add(&self, counter: fn(&mut Stats) -> &mut u64, count: usize) {
        *counter(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)) += count as u64;
    }

    /// Counts what became of so many datagrams. Only a full buffer is an error: what the host or the network refuses is
    /// dropped.
    pub(super) fn sent(
        &self,
        result: io::Result<()>,
        out: &Outgoing<'_>,
        datagrams: usize,
    ) -> io::Result<()> {
        match result {
            Ok(()) => self.add(|stats| &mut stats.sent_datagrams, datagrams),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.add(|stats| &mut stats.send_would_block, 1);
                return Err(error);
            }
            Err(error) => {
                tracing::debug!(%error, destination = %out.destination, datagrams, "not sent");
                self.add(|stats| &mut stats.send_drops, datagrams);
            }
        }
        Ok(())
    }

    /// Counts a failed call to receive; returns its error.
    pub(super) fn recv_failed(&self, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::WouldBlock {
            self.add(|stats| &mut stats.recv_errors, 1);
        }
        error
    }

    pub(super) fn snapshot(&self, recv_overflows: u64) -> Stats {
        Stats { recv_overflows, ..*self.0.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

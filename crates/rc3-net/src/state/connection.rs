//! One connection, including its waiting tasks.

use std::{
    sync::{Arc, OnceLock},
    task::Waker,
};

use bytes::Bytes;
use rc3_core::{self as core, ConnectionError, ConnectionHandle, Event, StreamId, VarInt};
use rustc_hash::FxHashSet;
use tokio::sync::{Notify, oneshot};

use super::map::Map;
use crate::waiters::ConnectionWaiters;

/// One connection, besides the core's own state.
pub(crate) struct ConnectionState {
    pub(super) handle: ConnectionHandle,
    /// The core's side, after the connection ended.
    pub(super) gone: Option<Box<core::Connection>>,
    /// Whether a handle to it or to one of its streams exists.
    pub(super) held: bool,
    /// The handshake is complete.
    pub(crate) complete: bool,
    /// `Connecting` may resolve, see [`Self::announce`].
    pub(crate) announced: bool,
    pub(crate) error: Option<ConnectionError>,
    /// The task inside `Connecting`.
    pub(crate) connecting: Option<Waker>,
    /// Tasks that wait for the result of 0-RTT.
    pub(crate) zero_rtt: Option<oneshot::Sender<bool>>,
    /// The server rejected the streams that were opened before the handshake was complete.
    pub(crate) zero_rtt_rejected: bool,
    pub(crate) readers: Map<StreamId, Waker>,
    pub(crate) writers: Map<StreamId, Waker>,
    /// Tasks that wait until a stream is stopped, delivered or reset.
    pub(crate) stopped: Map<StreamId, Arc<StopWaiter>>,
    /// Streams with accepted bytes, or an end, that the peer has not acknowledged.
    pub(crate) undelivered: FxHashSet<StreamId>,
    /// How to close it when `undelivered` is empty.
    pub(super) closing: Option<(VarInt, Bytes)>,
    waiters: Arc<ConnectionWaiters>,
    #[cfg(feature = "metrics")]
    pub(super) reporter: crate::metrics::ConnectionReporter,
}

/// Shared by the tasks that wait for one stream. The code is here because the core may have forgotten the stream when they run.
#[derive(Debug, Default)]
pub(crate) struct StopWaiter {
    pub(crate) over: Arc<Notify>,
    pub(crate) code: OnceLock<VarInt>,
}

impl ConnectionState {
    pub(super) fn new(handle: ConnectionHandle, waiters: Arc<ConnectionWaiters>) -> Self {
        Self {
            handle,
            gone: None,
            held: true,
            complete: false,
            announced: false,
            error: None,
            connecting: None,
            zero_rtt: None,
            zero_rtt_rejected: false,
            readers: Map::default(),
            writers: Map::default(),
            stopped: Map::default(),
            undelivered: FxHashSet::default(),
            closing: None,
            waiters,
            #[cfg(feature = "metrics")]
            reporter: crate::metrics::ConnectionReporter::default(),
        }
    }

    pub(super) fn on_event(&mut self, event: Event, wakers: &mut Vec<Waker>) {
        match event {
            Event::HandshakeDataReady => self.waiters.handshake.notify_waiters(),
            Event::EarlyDataRejected => {
                self.zero_rtt_rejected = true;
                self.undelivered.clear();
                self.wake_streams(wakers);
            }
            Event::Connected => {
                self.complete = true;
                // No task may be waiting any more.
                self.zero_rtt.take().map(|waiter| waiter.send(!self.zero_rtt_rejected));
                self.waiters.handshake.notify_waiters();
                // Streams could not be opened before.
                self.waiters.available.iter().for_each(Notify::notify_waiters);
            }
            Event::Lost(error) => self.on_lost(error, wakers),
            Event::Opened(dir) => self.waiters.opened[dir as usize].notify_waiters(),
            Event::Available(dir) => self.waiters.available[dir as usize].notify_waiters(),
            Event::Readable(id) => wakers.extend(self.readers.remove(&id)),
            Event::Writable(id) => wakers.extend(self.writers.remove(&id)),
            Event::Finished(id) => self.on_send_over(id),
            Event::Stopped(id, code) => {
                if let Some(stopped) = self.stopped.get(&id) {
                    stopped.code.get_or_init(|| code);
                }
                self.on_send_over(id);
                wakers.extend(self.writers.remove(&id));
            }
            Event::DatagramReceived => self.waiters.datagram_received.notify_waiters(),
            Event::DatagramsUnblocked => self.waiters.datagrams_unblocked.notify_waiters(),
            // Events of a newer core that no task here waits for.
            _ => {}
        }
    }

    /// Lets `Connecting` resolve if the handshake is complete. The driver first sends what completes it at the peer: an
    /// application that closes the connection at once would otherwise replace that by the close, and the peer would never
    /// see a connection.
    pub(super) fn announce(&mut self, wakers: &mut Vec<Waker>) {
        if self.complete {
            self.announced = true;
            wakers.extend(self.connecting.take());
        }
    }

    /// A stream has delivered everything, or was abandoned.
    pub(crate) fn on_send_over(&mut self, id: StreamId) {
        self.undelivered.remove(&id);
        if let Some(stopped) = self.stopped.remove(&id) {
            stopped.over.notify_waiters();
        }
    }

    pub(super) fn on_lost(&mut self, error: ConnectionError, wakers: &mut Vec<Waker>) {
        if self.error.is_some() {
            return;
        }
        self.announce(wakers);
        self.error = Some(error);
        self.closing = None;
        wakers.extend(self.connecting.take());
        self.zero_rtt = None;
        self.wake_streams(wakers);
        let ConnectionWaiters {
            handshake,
            available,
            opened,
            datagram_received,
            datagrams_unblocked,
            closed,
        } = &*self.waiters;
        let all = [handshake, datagram_received, datagrams_unblocked, closed];
        all.into_iter().chain(available).chain(opened).for_each(Notify::notify_waiters);
    }

    /// Wakes all tasks that wait for a stream.
    fn wake_streams(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.readers.drain().map(|(_, waker)| waker));
        wakers.extend(self.writers.drain().map(|(_, waker)| waker));
        self.stopped.drain().for_each(|(_, stopped)| stopped.over.notify_waiters());
    }
}

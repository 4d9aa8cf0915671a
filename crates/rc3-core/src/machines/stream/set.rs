//! All streams of a connection, and the order in which each loop serves them.
//!
//! Invariant: a sending stream is in `primary_turns` exactly while it [wants the primary](SendStream::wants_primary),
//! at its `turn`, and in `rlp_queue` while it is `queued_for_rlp`;
//! `sending` is the sum of the sending streams' memory, `present` that of their stored or requested source bytes,
//! `received` that of the receiving streams' memory. Change streams by `with_send` and `with_recv`, which keep it.
//!
//! The maps need no keyed hash: stream ids are counted up and few at a time, a peer cannot choose them to collide.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, VecDeque},
    mem,
};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::{
    recv::{PullBounds, RecvStream},
    send::{
        Fed, SendStream, ServiceOrder,
        source::{PIECE, PRESENT_MAX, SourceRead},
    },
};
use crate::{
    error::PeerMisbehaved,
    quic::{Dir, StreamId},
    seams::primary::{PrimaryWriter, quinn::Quic},
    structures::{
        blocked_writers::BlockedWriters,
        held::{MemoryUse, ReceiveMemory},
        taken::ReadBytes,
    },
};

#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Boxed: a map has room for up to twice its entries, and keeps it.
    send: FxHashMap<StreamId, Box<SendStream>>,
    recv: FxHashMap<StreamId, Box<RecvStream>>,
    /// The peer's streams the application has not accepted yet, by direction.
    incoming: [VecDeque<StreamId>; 2],
    /// The number of streams so far, by opener and direction.
    opened: [[u64; 2]; 2],
    /// The newest stream that this side has opened in each direction, until the primary carries some of it.
    unopened: [Option<StreamId>; 2],
    primary_turns: PrimaryTurns,
    /// Streams that may have bytes for RLP: better priority first, then the older.
    rlp_queue: BTreeSet<ServiceOrder>,
    next_age: u64,
    /// Memory use of sending streams: written bytes, and their records.
    pub(crate) sending: MemoryUse,
    /// Bytes stored of streams that the peer does not read.
    pub(crate) unwanted: u64,
    /// Bytes of all sources that are stored or requested.
    pub(crate) present: u64,
    /// Streams whose source should be read, or is no longer needed.
    pub(crate) readable_sources: VecDeque<StreamId>,
    /// Streams with a source that found no room in `present`.
    crowded: Vec<StreamId>,
    /// Writers that found the send window full.
    pub(crate) blocked: BlockedWriters,
    /// Streams fed since the primary last had no waiting data.
    fed: Vec<StreamId>,
    /// Streams that the peer reports as complete, until the application knows.
    completed: Vec<StreamId>,
    /// Memory use of the receiving streams: bytes for the application, and records of gaps.
    pub(crate) received: ReceiveMemory,
    /// The number of streams of which the primary has more than their readers have taken.
    await_reader: usize,
    /// Buffer for pieces on their way from the primary to a stream; empty between calls.
    pieces: Vec<(u64, Bytes)>,
}

/// Streams that want the primary.
#[derive(Debug, Default)]
struct PrimaryTurns {
    order: BTreeSet<ServiceOrder>,
    next: u64,
}

impl PrimaryTurns {
    /// Gives a stream a turn behind the others of its priority, unless it has one, or takes its turn away.
    fn place(&mut self, stream: &mut SendStream, wants: bool) {
        match stream.turn {
            Some((priority, _)) if wants && priority == stream.priority => return,
            Some((priority, number)) => _ = self.order.remove(&(Reverse(priority), number, stream.id)),
            None => {}
        }
        stream.turn = wants.then_some((stream.priority, self.next));
        if wants {
            self.order.insert((Reverse(stream.priority), self.next, stream.id));
            self.next += 1;
        }
    }
}

/// What [`Streams::pull`] took of a stream.
#[derive(Debug)]
pub(crate) struct Pulled {
    pub(crate) result: Result<ReadBytes, PeerMisbehaved>,
    /// Bytes that a reset dropped: they count as consumed.
    pub(crate) dropped: u64,
    /// As [`RecvStream::is_complete_early`].
    pub(crate) complete_early: bool,
}

impl Streams {
    /// Registers a stream that either side has opened.
    pub(crate) fn on_opened(&mut self, id: StreamId) {
        self.opened[id.initiator() as usize][id.dir() as usize] += 1;
    }

    /// Lets the application accept it.
    pub(crate) fn offer(&mut self, id: StreamId) {
        self.incoming[id.dir() as usize].push_back(id);
    }

    /// The number of streams waiting to be accepted.
    pub(crate) fn offered(&self, dir: Dir) -> usize {
        self.incoming[dir as usize].len()
    }

    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.incoming[dir as usize].pop_front()
    }

    /// How many streams the side that owns `id` has opened in its direction, as far as known.
    pub(crate) fn known(&self, id: StreamId) -> u64 {
        self.opened[id.initiator() as usize][id.dir() as usize]
    }

    /// This side has opened it: the peer learns of it from the primary.
    pub(crate) fn on_opened_here(&mut self, id: StreamId) {
        self.on_opened(id);
        self.unopened[id.dir() as usize] = Some(id);
    }

    pub(crate) fn insert_send(&mut self, id: StreamId, records: bool, rlp_limit: u64) {
        let age = self.next_age;
        self.next_age += 1;
        self.send.insert(id, Box::new(SendStream::new(id, age, records, rlp_limit)));
    }

    /// Unless it is there already.
    pub(crate) fn insert_recv(&mut self, id: StreamId, new: impl FnOnce() -> RecvStream) {
        self.recv.entry(id).or_insert_with(|| Box::new(new()));
    }

    pub(crate) fn recv(&self, id: StreamId) -> Option<&RecvStream> {
        self.recv.get(&id).map(Box::as_ref)
    }

    /// A receiving stream, for changes that do not concern its memory.
    pub(crate) fn recv_mut(&mut self, id: StreamId) -> Option<&mut RecvStream> {
        self.recv.get_mut(&id).map(Box::as_mut)
    }

    /// Changes a receiving stream and updates memory use.
    pub(crate) fn with_recv<T>(
        &mut self,
        id: StreamId,
        change: impl FnOnce(&mut RecvStream) -> T,
    ) -> Option<T> {
        let stream = self.recv.get_mut(&id)?;
        let (held, awaited) = (stream.held(), stream.awaits_reader());
        let result = change(stream);
        self.received.replace(held, stream.held());
        self.await_reader = self.await_reader + usize::from(stream.awaits_reader()) - usize::from(awaited);
        Some(result)
    }

    /// Takes some of a stream's data from the primary, as [`RecvStream::pull`].
    pub(crate) fn pull(
        &mut self,
        id: StreamId,
        primary: &mut Quic,
        bounds: PullBounds,
        datagram_len: usize,
    ) -> Option<Pulled> {
        let mut pieces = mem::take(&mut self.pieces);
        let pulled = self.with_recv(id, |stream| {
            let consumed = stream.consumed();
            let result = stream.pull(primary, id, bounds, datagram_len, &mut pieces);
            let dropped = stream.consumed() - consumed;
            Pulled { result, dropped, complete_early: stream.is_complete_early() }
        });
        self.pieces = pieces;
        pulled
    }

    pub(crate) fn remove_recv(&mut self, id: StreamId) -> Option<Box<RecvStream>> {
        let stream = self.recv.remove(&id)?;
        self.received.replace(stream.held(), ReceiveMemory::default());
        self.await_reader -= usize::from(stream.awaits_reader());
        Some(stream)
    }

    /// Whether the primary has more of some stream than its reader has taken.
    pub(crate) fn is_reader_awaited(&self) -> bool {
        self.await_reader > 0
    }

    /// The streams of which nobody has read since the last call although there was more, each once until it is read.
    pub(crate) fn find_unread(&mut self) -> Vec<StreamId> {
        let ids: Vec<_> =
            self.recv.iter().filter(|(_, stream)| stream.awaits_reader()).map(|(&id, _)| id).collect();
        ids.into_iter().filter(|&id| self.with_recv(id, RecvStream::find_unread) == Some(true)).collect()
    }

    pub(crate) fn send(&self, id: StreamId) -> Option<&SendStream> {
        self.send.get(&id).map(Box::as_ref)
    }

    /// Changes a sending stream and updates memory use and order.
    pub(crate) fn with_send<T>(
        &mut self,
        id: StreamId,
        change: impl FnOnce(&mut SendStream) -> T,
    ) -> Option<T> {
        let stream = self.send.get_mut(&id)?;
        let (held, present, unwanted) = (stream.held(), stream.buffer.present(), stream.unwanted_bytes());
        let result = change(stream);
        self.sending.replace(held, stream.held());
        self.unwanted = self.unwanted + stream.unwanted_bytes() - unwanted;
        self.present = self.present + stream.buffer.present() - present;
        if stream.notify_reader(PRESENT_MAX.saturating_sub(self.present)) {
            self.readable_sources.push_back(id);
        }
        self.primary_turns.place(stream, stream.wants_primary());
        if !self.crowded.is_empty() && self.present < PRESENT_MAX / 2 {
            self.readable_sources.extend(self.crowded.drain(..));
        }
        Some(result)
    }

    /// What the reader of a stream's source should do.
    pub(crate) fn next_read(&mut self, id: StreamId) -> Option<SourceRead> {
        let room = PRESENT_MAX.saturating_sub(self.present);
        let read = self.with_send(id, |stream| {
            stream.on_reader();
            match stream.next_read(room) {
                Some(span) => SourceRead::Span(stream.ask(span)),
                None if stream.ledger.is_answered() => SourceRead::Done,
                None => SourceRead::Wait,
            }
        })?;
        // Only bytes of others can be in its way: it is notified when they are gone.
        if read == SourceRead::Wait && room < PIECE && !self.crowded.contains(&id) {
            self.crowded.push(id);
        }
        Some(read)
    }

    pub(crate) fn remove_send(&mut self, id: StreamId) -> Option<Box<SendStream>> {
        let mut stream = self.send.remove(&id)?;
        self.sending.replace(stream.held(), MemoryUse::default());
        self.unwanted -= stream.unwanted_bytes();
        self.present -= stream.buffer.present();
        self.primary_turns.place(&mut stream, false);
        if stream.queued_for_rlp {
            self.rlp_queue.remove(&stream.rlp_place());
        }
        Some(stream)
    }

    /// The peer wants a stream's data to wait, or to go on.
    pub(crate) fn set_paused(&mut self, id: StreamId, paused: bool) {
        self.with_send(id, |stream| stream.paused = paused);
        if !paused {
            self.queue_for_rlp(id);
        }
    }

    pub(crate) fn set_priority(&mut self, id: StreamId, priority: i32) {
        let Some(stream) = self.send.get_mut(&id) else { return };
        let queued = mem::take(&mut stream.queued_for_rlp);
        if queued {
            self.rlp_queue.remove(&stream.rlp_place());
        }
        self.with_send(id, |stream| stream.priority = priority);
        if queued {
            self.queue_for_rlp(id);
        }
    }

    /// Hands up to `budget` stream bytes to the primary, in order of service. `on_fed` gets each stream, what was
    /// handed over, and by how much its use of credit has grown.
    pub(crate) fn feed<P: PrimaryWriter>(
        &mut self,
        primary: &mut P,
        mut budget: u64,
        mut on_fed: impl FnMut(StreamId, &Fed, u64),
    ) {
        while budget > 0 {
            let Some((id, most)) = self.pop_turn(budget) else { break };
            self.unopened[id.dir() as usize].take_if(|newest| *newest == id);
            let fed = self.with_send(id, |stream| {
                // A served stream goes behind the others of its priority.
                stream.turn = None;
                let usage = stream.usage();
                let fed = stream.feed(primary, most);
                (fed, stream.usage() - usage, stream.has_source())
            });
            let Some((fed, usage, has_source)) = fed else { break };
            if self.fed.last() != Some(&id) {
                self.fed.push(id);
            }
            on_fed(id, &fed, usage);
            if has_source {
                self.queue_for_rlp(id);
            }
            budget = budget.saturating_sub(fed.handed.max(1));
        }
    }

    /// The next stream to feed, and how many bytes of it at most. Where more waits than `budget`, a byte of the newest
    /// stream goes first: it opens all older ones too (RFC 9000 §2.1), so that their readers need not wait until the
    /// primary comes to what RLP has brought.
    fn pop_turn(&mut self, budget: u64) -> Option<(StreamId, u64)> {
        let first = *self.primary_turns.order.first()?;
        let mut unopened = self.unopened.iter().flatten().filter(|_| self.sending.bytes > budget);
        let newest = unopened.find_map(|id| self.send.get(id)?.turn());
        // What the control stream has goes before all streams.
        let has_records =
            |turn: ServiceOrder| self.send.get(&turn.2).is_some_and(|first| first.has_records());
        let (turn, most) = match newest.filter(|&newest| newest != first && has_records(first)) {
            Some(newest) => (newest, 1),
            None => (first, budget),
        };
        self.primary_turns.order.remove(&turn);
        Some((turn.2, most))
    }

    /// Whether streams were fed since the last [`Self::on_primary_empty`].
    pub(crate) fn is_any_fed(&self) -> bool {
        !self.fed.is_empty()
    }

    /// The same, of streams except `control`.
    pub(crate) fn is_any_fed_except(&self, control: Option<StreamId>) -> bool {
        self.fed.iter().any(|&id| Some(id) != control)
    }

    /// The primary has no waiting data.
    pub(crate) fn on_primary_empty(&mut self) {
        let mut fed = mem::take(&mut self.fed);
        for id in fed.drain(..) {
            self.with_send(id, SendStream::drop_overlap);
        }
        self.fed = fed;
    }

    /// The primary's data waits for its window: RLP may send it, too.
    pub(crate) fn queue_fed_for_rlp(&mut self) {
        for at in 0..self.fed.len() {
            self.queue_for_rlp(self.fed[at]);
        }
    }

    /// The peer reports a stream as complete.
    ///
    /// # Errors
    /// [`PeerMisbehaved::Receipt`] if it cannot have all of it.
    pub(crate) fn on_complete(&mut self, id: StreamId) -> Result<(), PeerMisbehaved> {
        match self.with_send(id, SendStream::on_complete) {
            Some(Some(true)) => self.completed.push(id),
            Some(None) => return Err(PeerMisbehaved::Receipt),
            Some(Some(false)) | None => {}
        }
        Ok(())
    }

    /// Streams that are delivered as a whole, each once.
    pub(crate) fn take_delivered(&mut self) -> Vec<StreamId> {
        let mut delivered = Vec::new();
        let mut completed = mem::take(&mut self.completed);
        completed.retain(|&id| {
            let announced = self.with_send(id, SendStream::announce_delivery);
            if announced == Some(true) {
                delivered.push(id);
            }
            announced == Some(false)
        });
        self.completed = completed;
        delivered
    }

    /// Whether some stream wants the primary now.
    pub(crate) fn wants_primary(&self) -> bool {
        !self.primary_turns.order.is_empty()
    }

    /// Whether every byte of every stream except `except` is delivered or handed over.
    pub(crate) fn all_answered(&self, except: Option<StreamId>) -> bool {
        !self.send.iter().any(|(&id, stream)| Some(id) != except && stream.is_busy())
    }

    pub(crate) fn queue_for_rlp(&mut self, id: StreamId) {
        if let Some(stream) = self.send.get_mut(&id)
            && !mem::replace(&mut stream.queued_for_rlp, true)
        {
            self.rlp_queue.insert(stream.rlp_place());
        }
    }

    pub(crate) fn queue_all_for_rlp(&mut self) {
        let streams = self.send.values_mut();
        self.rlp_queue = streams
            .map(|stream| {
                stream.queued_for_rlp = true;
                stream.rlp_place()
            })
            .collect();
    }

    /// The peer's first limit for every stream except `control`.
    pub(crate) fn set_rlp_limits(&mut self, limit: u64, control: Option<StreamId>) {
        for (&id, stream) in &mut self.send {
            if Some(id) != control {
                stream.rlp_limit = limit;
            }
        }
        self.queue_all_for_rlp();
    }

    /// The stream RLP should serve next.
    pub(crate) fn next_for_rlp(&self) -> Option<StreamId> {
        self.rlp_queue.first().map(|&(.., id)| id)
    }

    /// RLP found nothing to send on its first stream.
    pub(crate) fn pass_rlp(&mut self) {
        if let Some((.., id)) = self.rlp_queue.pop_first()
            && let Some(stream) = self.send.get_mut(&id)
        {
            stream.queued_for_rlp = false;
        }
    }

    /// Looks for streams of which the peer accepts nothing.
    pub(crate) fn find_stuck(&mut self) {
        let refused = self.send.iter().filter(|(_, stream)| stream.blocked);
        for id in refused.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.with_send(id, SendStream::find_stuck);
        }
    }

    /// The connection has ended: nothing is sent or received any more, received data stays readable.
    pub(crate) fn close(&mut self) {
        self.primary_turns.order.clear();
        self.rlp_queue.clear();
        for stream in self.send.values_mut() {
            (stream.turn, stream.queued_for_rlp) = (None, false);
        }
    }

    /// Drops the primary's out-of-order data.
    pub(crate) fn drop_pending_records(&mut self) {
        for stream in self.recv.values_mut() {
            let held = stream.held();
            stream.drop_pending_records();
            self.received.replace(held, stream.held());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::{Side, WriteError};

    /// Accepts everything, and remembers of which streams.
    #[derive(Default)]
    struct Sink(Vec<StreamId>);

    impl PrimaryWriter for Sink {
        fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, WriteError> {
            self.0.push(id);
            Ok(chunks.iter_mut().map(|chunk| mem::take(chunk).len()).sum())
        }

        fn finish(&mut self, _: StreamId) {}
    }

    fn id(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Uni, index)
    }

    /// Streams of 3000 bytes each, one for each of these priorities.
    fn streams(priorities: &[i32]) -> Streams {
        let mut streams = Streams::default();
        for (index, &priority) in (0..).zip(priorities) {
            streams.insert_send(id(index), true, u64::MAX);
            streams.set_priority(id(index), priority);
            streams.with_send(id(index), |stream| stream.write(&mut [vec![0; 3000].into()], usize::MAX));
            streams.queue_for_rlp(id(index));
        }
        streams
    }

    fn order_of_service(streams: &mut Streams) -> Vec<u64> {
        let mut sink = Sink::default();
        while streams.wants_primary() {
            streams.feed(&mut sink, 1000, |_, _, _| {});
        }
        sink.0.iter().map(|id| id.index()).collect()
    }

    #[test]
    fn streams_of_one_priority_take_turns_at_the_primary() {
        assert_eq!(order_of_service(&mut streams(&[0, 1, 1])), [1, 2, 1, 2, 1, 2, 0, 0, 0]);
    }

    #[test]
    fn a_byte_of_the_newest_stream_goes_first() {
        let mut streams = streams(&[0, 0, 0]);
        streams.on_opened_here(id(2));
        assert_eq!(order_of_service(&mut streams), [2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn a_new_priority_moves_a_stream_in_both_queues() {
        let mut streams = streams(&[0, 0, 0]);
        streams.set_priority(id(2), 7);
        assert_eq!(streams.next_for_rlp(), Some(id(2)));
        streams.pass_rlp();
        assert_eq!(streams.next_for_rlp(), Some(id(0)));
        assert_eq!(order_of_service(&mut streams), [2, 2, 2, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn a_stream_is_queued_for_rlp_once_and_again_after_it_was_passed() {
        let mut streams = streams(&[0, 0]);
        streams.queue_for_rlp(id(0));
        streams.pass_rlp();
        assert_eq!(streams.next_for_rlp(), Some(id(1)));
        streams.queue_for_rlp(id(0));
        assert_eq!(streams.next_for_rlp(), Some(id(0)));
        streams.remove_send(id(0));
        streams.pass_rlp();
        assert_eq!(streams.next_for_rlp(), None);
        streams.queue_all_for_rlp();
        assert_eq!(streams.next_for_rlp(), Some(id(1)));
    }
}

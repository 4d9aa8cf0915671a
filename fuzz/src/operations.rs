//! Whole connections under operations chosen by the fuzzer: two endpoints, a link between them, and somebody on it who
//! loses, doubles, damages and makes up datagrams.
//!
//! Claims: nothing panics; what is held stays within the windows; what is read is what was written, each byte once;
//! neither end gives the connection up; and once the trouble is over, everything that was finished and not given up
//! arrives.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use arbitrary::{Arbitrary, Unstructured};
use rc3_core::{
    ConnectionHandle, Dir, Event, ReadError, StreamId, VarInt, WriteError,
    internals::SpanSet,
    units::{Rate, Span},
};
use rc3_sim::{Crypto, Impairments, LinkConfig, Node, Pair, PairConfig, pattern};

/// Operations taken from one input.
const OPS_MAX: usize = 256;

/// Bytes written in one run at full size.
const WRITTEN_MAX: u64 = 1 << 20;

/// Window of RLP data and of the primary at full size, in bytes. Both together may be smaller than what is written.
const WINDOW: u32 = 1 << 20;

/// Part of all lengths with which the fuzzer runs: small enough for many runs a second.
const SMALL: u32 = 16;

/// Of both ends.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Virtual time in which all must have arrived once nobody interferes any more.
const PATIENCE: Duration = Duration::from_secs(900);

#[derive(Debug, Arbitrary)]
struct World {
    /// In units of 100 kbit/s.
    rate: u8,
    delay_ms: u8,
    /// In packets.
    buffer: u8,
    /// Out of 255 arrivals.
    reordered: u8,
    priority: bool,
    paced: bool,
    batch: u8,
    uni_streams: u8,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Op {
    /// A stream of this end.
    Open { bi: bool },
    /// All streams of the other end.
    Accept,
    /// Bytes to a stream.
    Write { stream: u8, len: u16 },
    /// No more bytes.
    Finish { stream: u8 },
    /// A stream that is given up by its sender.
    Reset { stream: u8 },
    /// A stream that is given up by its reader.
    Stop { stream: u8 },
    /// Bytes of a stream.
    Read { stream: u8, len: u16, ordered: bool },
    /// A priority for a stream.
    Priority { stream: u8, priority: i8 },
    /// What happens to the next datagrams of this side.
    Datagrams { count: u8, fate: Fate },
    /// A datagram of nobody's making, as if from the other side.
    Inject { first: u8, len: u16 },
    /// The client's address changes.
    Move { port: u8 },
    /// Time passes.
    Advance { ms: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Arbitrary)]
enum Fate {
    Arrives,
    Lost,
    Doubled,
    Damaged { bit: u16 },
    CutShort { len: u16 },
}

/// One end's application.
struct App {
    from_client: bool,
    handle: ConnectionHandle,
    sending: BTreeMap<StreamId, Sending>,
    receiving: BTreeMap<StreamId, Receiving>,
    fates: Arc<Mutex<VecDeque<Fate>>>,
    size: Size,
}

/// How a world is run.
#[derive(Clone, Copy)]
struct Size {
    crypto: Crypto,
    /// All lengths are divided by this.
    divisor: u32,
}

#[derive(Default)]
struct Sending {
    written: u64,
    finished: bool,
    given_up: bool,
}

#[derive(Default)]
struct Receiving {
    got: SpanSet,
    /// How it is read, which the first read decides.
    ordered: Option<bool>,
    ended: bool,
    given_up: bool,
}

/// Runs one input, small and without cryptography.
pub fn operations(input: &[u8]) {
    run(input, Size { crypto: Crypto::None, divisor: SMALL });
}

/// The same at full size and with real cryptography: too slow to search by.
pub fn operations_in_full(input: &[u8]) {
    run(input, Size { crypto: Crypto::Tls, divisor: 1 });
}

fn run(input: &[u8], size: Size) {
    let mut input = Unstructured::new(input);
    let Ok(world) = World::arbitrary(&mut input) else { return };
    let mut pair = Pair::new(config(&world, size));
    let (mut client, mut server) = connected(&mut pair, size);
    let (mut written, may_write) = (0, WRITTEN_MAX / u64::from(size.divisor));
    for _ in 0..OPS_MAX {
        let Ok((by_client, op)) = <(bool, Op)>::arbitrary(&mut input) else { break };
        let (app, node) = match by_client {
            true => (&mut client, &mut pair.client),
            false => (&mut server, &mut pair.server),
        };
        match op {
            Op::Advance { ms } => {
                pair.drive_until(Duration::from_millis(ms.into()), |_| false);
            }
            Op::Move { port } => pair.client.set_address(([10, 0, 0, 1], 4433 + u16::from(port)).into()),
            Op::Inject { first, len } => {
                let mut datagram: Vec<u8> = (0..u64::from(len % 2000)).map(pattern).collect();
                if let Some(byte) = datagram.first_mut() {
                    *byte = first;
                }
                let remote = if by_client { pair.server.address() } else { pair.client.address() };
                if by_client {
                    pair.client.inject(remote, &datagram)
                } else {
                    pair.server.inject(remote, &datagram)
                }
            }
            op => written += app.perform(node, op, may_write - written),
        }
        client.check(&mut pair.client);
        server.check(&mut pair.server);
    }
    for app in [&client, &server] {
        app.fates.lock().unwrap().clear();
    }
    let mut first = true;
    let done = pair.drive_until(PATIENCE, |pair| {
        // What is not to be had now is announced by an event.
        if !first && pair.client.events.is_empty() && pair.server.events.is_empty() {
            return false;
        }
        first = false;
        client.wind_up(&mut pair.client);
        server.wind_up(&mut pair.server);
        arrived(&client, &server) && arrived(&server, &client)
    });
    assert!(done, "not everything arrived within {PATIENCE:?}");
}

fn config(world: &World, size: Size) -> PairConfig {
    let link = LinkConfig {
        rate: Rate::from_bits_per_second((u64::from(world.rate) + 5) * 100_000),
        delay: Duration::from_millis(u64::from(world.delay_ms) / 4),
        impairments: Impairments {
            reorder: f64::from(world.reordered) / 2550.0,
            reorder_delay: Duration::from_millis(20),
            ..Impairments::default()
        },
        seed: 1,
        ..LinkConfig::default()
    };
    let window = WINDOW / size.divisor;
    let buffer = (u64::from(world.buffer) + 4) * 1500;
    let mut config = PairConfig { crypto: size.crypto, ..PairConfig::symmetric(link, buffer) };
    config.priority = world.priority;
    config.batch = if world.paced { usize::from(world.batch % 16) + 1 } else { 1 };
    for side in [&mut config.client, &mut config.server] {
        side.paced(world.paced)
            .max_concurrent_uni_streams((world.uni_streams % 32).into())
            .rlp_window(window.into())
            .rlp_stream_window(window.into())
            .receive_window(window.into())
            .stream_receive_window(window.into())
            .max_idle_timeout(None)
            // Else a client that has moved and has nothing to say could not be reached by anybody.
            .keep_alive_interval(Some(KEEP_ALIVE));
    }
    config
}

/// The handshake is left alone: until it is complete, anybody on the path may end it.
fn connected(pair: &mut Pair, size: Size) -> (App, App) {
    let client = pair.connect();
    let up = pair.drive_until(Duration::from_secs(60), |pair| {
        let up = |node: &Node, handle| node.connection(handle).is_some_and(|c| !c.is_handshaking());
        up(&pair.client, client)
            && pair.server.accepted.front().is_some_and(|&server| up(&pair.server, server))
    });
    assert!(up, "no connection");
    let server = pair.server.accepted[0];
    (App::new(true, client, &mut pair.client, size), App::new(false, server, &mut pair.server, size))
}

/// The byte at `offset` of what a side sends on `stream`.
fn content(stream: StreamId, from_client: bool, offset: u64) -> u8 {
    pattern(offset ^ (VarInt::from(stream).into_inner() << 40) ^ (u64::from(from_client) << 60))
}

impl App {
    fn new(from_client: bool, handle: ConnectionHandle, node: &mut Node, size: Size) -> Self {
        let fates = Arc::<Mutex<VecDeque<Fate>>>::default();
        let drawn = fates.clone();
        node.set_tamper(Box::new(move |_, datagram| {
            let contents = &mut datagram.contents;
            match drawn.lock().unwrap().pop_front().unwrap_or(Fate::Arrives) {
                Fate::Arrives => {}
                Fate::Lost => return 0,
                Fate::Doubled => return 2,
                Fate::Damaged { bit } => return damage(contents, bit, size.crypto),
                Fate::CutShort { len } => contents.truncate(usize::from(len) % contents.len()),
            }
            1
        }));
        Self { from_client, handle, sending: BTreeMap::new(), receiving: BTreeMap::new(), fates, size }
    }

    /// Does as told, where it makes sense; how many bytes were written.
    fn perform(&mut self, node: &mut Node, op: Op, may_write: u64) -> u64 {
        let handle = self.handle;
        match op {
            Op::Open { bi } => {
                let dir = if bi { Dir::Bi } else { Dir::Uni };
                if let Some(id) = node.with(handle, |c| c.open(dir)) {
                    self.sending.insert(id, Sending::default());
                    if bi {
                        self.receiving.insert(id, Receiving::default());
                    }
                }
            }
            Op::Accept => self.accept(node),
            Op::Write { stream, len } => {
                let Some((&id, sending)) = nth(&mut self.sending, stream) else { return 0 };
                let len = u64::from(len) / u64::from(self.size.divisor);
                let end = sending.written + len.min(may_write);
                let data: Vec<u8> =
                    (sending.written..end).map(|at| content(id, self.from_client, at)).collect();
                match node.with(handle, |c| c.write(id, data.into())) {
                    Ok(taken) => {
                        sending.written += taken as u64;
                        return taken as u64;
                    }
                    Err(WriteError::Blocked) => {}
                    Err(error) => assert!(sending.finished || sending.given_up, "{id}: {error}"),
                }
            }
            Op::Finish { stream } => {
                let Some((&id, sending)) = nth(&mut self.sending, stream) else { return 0 };
                sending.finished |= node.with(handle, |c| c.finish(id)).is_ok();
            }
            Op::Reset { stream } => {
                let Some((&id, sending)) = nth(&mut self.sending, stream) else { return 0 };
                sending.given_up |= node.with(handle, |c| c.reset(id, VarInt::from_u32(7))).is_ok();
            }
            Op::Stop { stream } => {
                let Some((&id, receiving)) = nth(&mut self.receiving, stream) else { return 0 };
                receiving.given_up |= node.with(handle, |c| c.stop(id, VarInt::from_u32(9))).is_ok();
            }
            Op::Read { stream, len, ordered } => {
                let Some((&id, receiving)) = nth(&mut self.receiving, stream) else { return 0 };
                let ordered = *receiving.ordered.get_or_insert(ordered);
                let len = usize::from(len).div_ceil(self.size.divisor as usize);
                receiving.read(node, handle, id, !self.from_client, len, ordered);
            }
            Op::Priority { stream, priority } => {
                let Some((&id, _)) = nth(&mut self.sending, stream) else { return 0 };
                let _ = node.with(handle, |c| c.set_priority(id, priority.into()));
            }
            Op::Datagrams { count, fate } => {
                let mut fates = self.fates.lock().unwrap();
                fates.extend((0..count % 32).map(|_| fate));
            }
            Op::Inject { .. } | Op::Move { .. } | Op::Advance { .. } => {}
        }
        0
    }

    fn accept(&mut self, node: &mut Node) {
        for dir in [Dir::Uni, Dir::Bi] {
            while let Some(id) = node.with(self.handle, |c| c.accept(dir)) {
                self.receiving.insert(id, Receiving::default());
                if dir == Dir::Bi {
                    self.sending.entry(id).or_default();
                }
            }
        }
    }

    /// What must hold at any time.
    fn check(&mut self, node: &mut Node) {
        while let Some((_, event)) = node.events.pop_front() {
            match event {
                // Also of a stream that is not accepted yet.
                Event::Stopped(id, _) => self.sending.entry(id).or_default().given_up = true,
                Event::Lost(reason) => panic!("connection lost: {reason}"),
                _ => {}
            }
        }
        let received = node.connection(self.handle).expect("not drained").stats().received;
        // Both windows, and for each stream the piece that makes it readable.
        let most = 2 * u64::from(WINDOW / self.size.divisor) + 200 * 1500;
        assert!(received.buffered_bytes <= most, "{} bytes held", received.buffered_bytes);
        // Half of them pays for as much again, beside what is free.
        let most = 2 * most + 3 * (4 << 20);
        assert!(received.held_bytes <= most, "{} bytes of memory held", received.held_bytes);
    }

    /// Ends what is open and takes what is there.
    fn wind_up(&mut self, node: &mut Node) {
        let handle = self.handle;
        self.accept(node);
        for (&id, sending) in &mut self.sending {
            if !sending.finished && !sending.given_up {
                sending.finished = node.with(handle, |c| c.finish(id)).is_ok();
            }
        }
        for (&id, receiving) in &mut self.receiving {
            let ordered = receiving.ordered.unwrap_or(true);
            while receiving.read(node, handle, id, !self.from_client, usize::MAX, ordered) {}
        }
        self.check(node);
    }
}

impl Receiving {
    /// One read; whether it brought bytes.
    fn read(
        &mut self,
        node: &mut Node,
        handle: ConnectionHandle,
        id: StreamId,
        from_client: bool,
        len: usize,
        ordered: bool,
    ) -> bool {
        if self.ended || self.given_up {
            return false;
        }
        match node.with(handle, |c| c.read(id, len, ordered)) {
            Ok(Some(chunk)) => {
                let span = Span::new(chunk.offset, chunk.offset + chunk.bytes.len() as u64);
                assert!(!ordered || span.start == self.got.covered(), "{id}: out of order");
                assert_eq!(self.got.insert(span), span.len(), "{id}: {span:?} came twice");
                let expected = (span.start..span.end).map(|at| content(id, from_client, at));
                assert!(chunk.bytes.iter().copied().eq(expected), "{id}: {span:?} changed");
                true
            }
            Ok(None) => {
                self.ended = true;
                false
            }
            Err(ReadError::Blocked) => false,
            Err(ReadError::Reset(_)) => {
                self.given_up = true;
                false
            }
            Err(error) => panic!("{id}: {error}"),
        }
    }
}

/// Flips a bit, and returns how many copies of the datagram arrive.
///
/// Without cryptography a tag covers the header and the length, so the tag is damaged too: as with cryptography, nobody
/// takes the datagram. A datagram with a long header can hold several packets, of which only one would be damaged.
fn damage(contents: &mut [u8], bit: u16, crypto: Crypto) -> usize {
    if matches!(crypto, Crypto::None) {
        let Some(tag) = contents.last_mut() else { return 0 };
        *tag ^= 0xff;
        if contents[0] & 0x80 != 0 {
            return 0;
        }
    }
    let bit = usize::from(bit) % (contents.len() * 8);
    contents[bit / 8] ^= 1 << (bit % 8);
    1
}

fn nth<V>(streams: &mut BTreeMap<StreamId, V>, nth: u8) -> Option<(&StreamId, &mut V)> {
    let count = streams.len().max(1);
    streams.iter_mut().nth(usize::from(nth) % count)
}

/// Whether all that one side sent has arrived at the other, or was given up by either.
fn arrived(from: &App, to: &App) -> bool {
    from.sending.iter().all(|(id, sending)| {
        let receiving = to.receiving.get(id);
        sending.given_up
            || receiving.is_some_and(|receiving| {
                let whole = receiving.got.covered() == sending.written;
                assert!(!receiving.ended || whole, "{id}: wrong end");
                receiving.ended || receiving.given_up
            })
    })
}

//! Whole connections under random operations over random links: written bytes arrive once and unchanged, or the stream
//! reports an error because one side abandoned it; levels keep to their budget.
//!
//! The ledger itself asserts "RLP sends no byte twice and nothing past the meeting point" on every packet, in all
//! builds; this test exercises it.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use rc3_core::{
    Congestion, ConnectionHandle, ConnectionStats, Dir, Event, Ladder, ReadError, StreamId, VarInt,
    WriteError,
    internals::SpanSet,
    units::{Level, Rate, Span},
};
use rc3_sim::{Impairments, LinkConfig, Node, Pair, PairConfig, pattern};

/// Small counts, so that short runs climb the ladder.
const LADDER: [u64; 4] = [3, 10, 40, 100_000];

/// The longest run after everything was written.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
struct World {
    kbits: u64,
    delay: Duration,
    buffer: u64,
    impairments: Impairments,
    paced: bool,
    priority: bool,
    congestion: Congestion,
    batch: usize,
    seed: u64,
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Open { dir: Dir },
    Write { stream: usize, len: usize },
    Finish { stream: usize },
    Reset { stream: usize },
    Stop { stream: usize },
    Priority { stream: usize, priority: i32 },
    Wait { time: Duration },
}

fn world() -> impl Strategy<Value = World> {
    let jitter = prop::collection::vec(0..20_u64, Level::COUNT);
    let link = (500..100_000_u64, 0..60_u64, 3_000..400_000_u64);
    let trouble = (0.0..0.05, 0.0..0.05, 0.0..0.05, 0..50_u64, jitter);
    let rest = (any::<bool>(), any::<bool>(), 0..3_u8, 1..12_usize, any::<u64>());
    (link, trouble, rest).prop_map(|((kbits, delay, buffer), trouble, rest)| {
        let (loss, duplicate, reorder, reorder_delay, jitter) = trouble;
        let (paced, priority, congestion, batch, seed) = rest;
        let mut levels = [Duration::ZERO; Level::COUNT];
        levels.iter_mut().zip(jitter).for_each(|(level, ms)| *level = Duration::from_millis(ms));
        World {
            kbits,
            delay: Duration::from_millis(delay),
            buffer,
            impairments: Impairments {
                loss,
                duplicate,
                reorder,
                reorder_delay: Duration::from_millis(reorder_delay),
                jitter: levels,
                ..Impairments::default()
            },
            paced,
            priority,
            congestion: [Congestion::NewReno, Congestion::Cubic, Congestion::Bbr][usize::from(congestion)],
            batch,
            seed,
        }
    })
}

fn ops() -> impl Strategy<Value = Vec<(bool, Op)>> {
    let stream = 0..6_usize;
    let op = prop_oneof![
        3 => any::<bool>().prop_map(|uni| Op::Open { dir: if uni { Dir::Uni } else { Dir::Bi } }),
        12 => (stream.clone(), prop_oneof![0..200_usize, 0..5_000_usize, 0..400_000_usize])
            .prop_map(|(stream, len)| Op::Write { stream, len }),
        2 => stream.clone().prop_map(|stream| Op::Finish { stream }),
        1 => stream.clone().prop_map(|stream| Op::Reset { stream }),
        1 => stream.clone().prop_map(|stream| Op::Stop { stream }),
        1 => (stream, -2..3_i32).prop_map(|(stream, priority)| Op::Priority { stream, priority }),
        6 => (0..300_u64).prop_map(|ms| Op::Wait { time: Duration::from_millis(ms) }),
    ];
    let first = [(true, Op::Open { dir: Dir::Uni }), (false, Op::Open { dir: Dir::Bi })];
    prop::collection::vec((any::<bool>(), op), 1..80)
        .prop_map(move |ops| first.into_iter().chain(ops).collect())
}

/// One end's application: what it wrote and what it got.
#[derive(Default)]
struct App {
    handle: Option<ConnectionHandle>,
    sending: BTreeMap<StreamId, Sending>,
    receiving: BTreeMap<StreamId, Receiving>,
    budget: Budget,
}

#[derive(Default)]
struct Sending {
    written: u64,
    finished: bool,
    /// Reset locally or stopped by the peer.
    given_up: bool,
}

#[derive(Default)]
struct Receiving {
    ordered: bool,
    got: SpanSet,
    ended: bool,
    given_up: bool,
}

/// Counters at the start of the busy period.
#[derive(Default)]
struct Budget {
    position: u64,
    packets: [u64; Level::COUNT],
}

/// The byte at `offset` of what `side` sends on `stream`.
fn content(stream: StreamId, from_client: bool, offset: u64) -> u8 {
    pattern(offset ^ (VarInt::from(stream).into_inner() << 40) ^ (u64::from(from_client) << 60))
}

impl App {
    fn perform(&mut self, node: &mut Node, from_client: bool, op: Op) {
        let Some(handle) = self.handle else { return };
        match op {
            Op::Open { dir } => {
                if let Some(id) = node.with(handle, |c| c.open(dir)) {
                    self.sending.insert(id, Sending::default());
                    if dir == Dir::Bi {
                        self.receiving.insert(id, Receiving::new(id));
                    }
                }
            }
            Op::Write { stream, len } => {
                let Some((&id, sending)) = self.sending.iter_mut().nth(stream) else { return };
                let data: Vec<u8> =
                    (0..len as u64).map(|at| content(id, from_client, sending.written + at)).collect();
                match node.with(handle, |c| c.write(id, data.into())) {
                    Ok(taken) => sending.written += taken as u64,
                    Err(WriteError::Blocked) => {}
                    Err(error) => assert!(sending.finished || sending.given_up, "{id}: {error}"),
                }
                self.budget.note_write(&node.connection(handle).unwrap().stats());
            }
            Op::Finish { stream } => self.finish_nth(node, stream),
            Op::Reset { stream } => {
                let Some((&id, sending)) = self.sending.iter_mut().nth(stream) else { return };
                if node.with(handle, |c| c.reset(id, VarInt::from_u32(7))).is_ok() {
                    sending.given_up = true;
                }
            }
            Op::Stop { stream } => {
                let Some((&id, receiving)) = self.receiving.iter_mut().nth(stream) else { return };
                if node.with(handle, |c| c.stop(id, VarInt::from_u32(9))).is_ok() {
                    receiving.given_up = true;
                }
            }
            Op::Priority { stream, priority } => {
                if let Some(&id) = self.sending.keys().nth(stream) {
                    let _ = node.with(handle, |c| c.set_priority(id, priority));
                }
            }
            Op::Wait { .. } => {}
        }
    }

    fn finish_nth(&mut self, node: &mut Node, nth: usize) {
        let Some(handle) = self.handle else { return };
        let Some((&id, sending)) = self.sending.iter_mut().nth(nth) else { return };
        if !sending.finished && !sending.given_up {
            sending.finished = node.with(handle, |c| c.finish(id)).is_ok();
        }
    }

    /// Takes everything available.
    fn pump(&mut self, node: &mut Node, from_client: bool) {
        let Some(handle) = self.handle else { return };
        for dir in [Dir::Uni, Dir::Bi] {
            while let Some(id) = node.with(handle, |c| c.accept(dir)) {
                self.receiving.insert(id, Receiving::new(id));
                if dir == Dir::Bi {
                    self.sending.insert(id, Sending::default());
                }
            }
        }
        while let Some((_, event)) = node.events.pop_front() {
            match event {
                Event::Stopped(id, code) => {
                    assert_eq!(code, VarInt::from_u32(9));
                    self.sending.get_mut(&id).expect("a stream we send on").given_up = true;
                }
                Event::Lost(reason) => panic!("connection lost: {reason}"),
                _ => {}
            }
        }
        for (&id, receiving) in &mut self.receiving {
            while !receiving.ended && !receiving.given_up {
                match node.with(handle, |c| c.read(id, 10_000, receiving.ordered)) {
                    Ok(Some(chunk)) => receiving.take(id, !from_client, chunk.offset, &chunk.bytes),
                    Ok(None) => receiving.ended = true,
                    Err(ReadError::Blocked) => break,
                    Err(ReadError::Reset(code)) => {
                        assert!([7, 9].map(VarInt::from_u32).contains(&code));
                        receiving.given_up = true;
                    }
                    Err(error) => panic!("{id}: {error}"),
                }
            }
        }
        self.budget.check(&node.connection(handle).unwrap().stats());
    }
}

impl Receiving {
    fn new(id: StreamId) -> Self {
        Self { ordered: id.index() % 3 != 1, ..Self::default() }
    }

    fn take(&mut self, id: StreamId, from_client: bool, offset: u64, bytes: &[u8]) {
        let span = Span::new(offset, offset + bytes.len() as u64);
        if self.ordered {
            assert_eq!(offset, self.got.covered(), "{id}: out of order");
        }
        assert_eq!(self.got.insert(span), span.len(), "{id}: {span:?} came twice");
        let expected: Vec<u8> = (span.start..span.end).map(|at| content(id, from_client, at)).collect();
        assert!(bytes == expected, "{id}: {span:?} changed");
    }
}

impl Budget {
    /// A write may begin a new busy period.
    fn note_write(&mut self, stats: &ConnectionStats) {
        if stats.sent.ladder_packets < self.position {
            self.packets = stats.sent.levels.map(|level| level.packets);
        }
        self.position = stats.sent.ladder_packets;
    }

    fn check(&mut self, stats: &ConnectionStats) {
        for (k, (level, before)) in stats.sent.levels.iter().zip(self.packets).enumerate() {
            let count = k.checked_sub(1).and_then(|k| LADDER.get(k)).copied().unwrap_or(0);
            assert!(
                level.packets - before <= count,
                "level {k}: {} packets of {count}",
                level.packets - before
            );
        }
        self.position = stats.sent.ladder_packets;
    }
}

fn run(world: &World, ops: &[(bool, Op)]) {
    let link = LinkConfig {
        rate: Rate::from_bits_per_second(world.kbits * 1000),
        delay: world.delay,
        impairments: world.impairments.clone(),
        seed: world.seed,
        ..LinkConfig::default()
    };
    let mut config = PairConfig::symmetric(link, world.buffer);
    config.priority = world.priority;
    config.batch = if world.paced { world.batch } else { 1 };
    for side in [&mut config.client, &mut config.server] {
        side.ladder(Ladder::new(&LADDER).unwrap()).congestion(world.congestion).paced(world.paced);
        side.max_idle_timeout(None);
    }
    let mut pair = Pair::new(config);
    let mut client = App { handle: Some(pair.connect()), ..App::default() };
    let mut server = App::default();
    let step = |pair: &mut Pair, client: &mut App, server: &mut App| {
        server.handle = server.handle.or_else(|| pair.server.accepted.pop_front());
        client.pump(&mut pair.client, true);
        server.pump(&mut pair.server, false);
    };
    let connected = pair.drive_until(PATIENCE, |pair| {
        step(pair, &mut client, &mut server);
        let up = |node: &Node, handle| node.connection(handle).is_some_and(|c| !c.is_handshaking());
        client.handle.is_some_and(|handle| up(&pair.client, handle))
            && server.handle.is_some_and(|handle| up(&pair.server, handle))
    });
    assert!(connected, "no connection within {PATIENCE:?}");
    for &(by_client, op) in ops {
        let time = if let Op::Wait { time } = op { time } else { Duration::ZERO };
        let until = pair.now + time;
        pair.drive_until(time, |pair| {
            step(pair, &mut client, &mut server);
            pair.now >= until
        });
        match by_client {
            true => client.perform(&mut pair.client, true, op),
            false => server.perform(&mut pair.server, false, op),
        }
    }
    let done = pair.drive_until(PATIENCE, |pair| {
        step(pair, &mut client, &mut server);
        for (app, node) in [(&mut client, &mut pair.client), (&mut server, &mut pair.server)] {
            (0..app.sending.len()).for_each(|nth| app.finish_nth(node, nth));
        }
        server.handle.is_some() && arrived(&client, &server) && arrived(&server, &client)
    });
    assert!(done, "not everything arrived within {PATIENCE:?}");
    // The primary may still have to bring ends, and bytes that RLP brought.
    let nothing_left = pair.drive_until(PATIENCE, |pair| {
        step(pair, &mut client, &mut server);
        let ends = [(&client, &mut pair.client), (&server, &mut pair.server)];
        ends.into_iter().all(|(app, node)| {
            let stats = node.connection(app.handle.expect("connected")).unwrap().stats();
            stats.received.held_bytes == 0 && node.endpoint().held_bytes() == stats.sent.overhead_bytes
        })
    });
    assert!(nothing_left, "memory is held for nothing");
}

/// Whether everything one side sent has arrived at the other, or was abandoned by either.
fn arrived(from: &App, to: &App) -> bool {
    from.sending.iter().all(|(id, sending)| {
        let receiving = to.receiving.get(id);
        sending.given_up
            || receiving.is_some_and(|receiving| receiving.given_up)
            || receiving.is_some_and(|receiving| {
                assert!(!receiving.ended || receiving.got.covered() == sending.written, "{id}: wrong end");
                receiving.ended
            })
    })
}

proptest! {
    #[test]
    fn what_is_written_arrives_once_and_unchanged(world in world(), ops in ops()) {
        run(&world, &ops);
    }
}

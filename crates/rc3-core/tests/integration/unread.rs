//! Streams that nobody reads for a while: a file that waits for its user's consent, streams that are read one by one. The
//! others of the connection go on, and memory stays bounded.

use std::time::Duration;

use bytes::Bytes;
use rc3_core::{ConnectionHandle, Dir, ReadError, RlpMode, StreamId, WriteError, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const MIB: u64 = 1 << 20;

/// A plain peer cannot be asked to pause; other implementations have small windows of each stream.
const WORLDS: [(RlpMode, Option<u32>); 3] =
    [(RlpMode::Off, Some(1 << 20)), (RlpMode::Guard, None), (RlpMode::Trust, None)];

static ZEROES: [u8; MIB as usize] = [0; MIB as usize];

/// Two ends with default settings, except the loop; and bytes that the client still has to write, by stream.
struct World {
    pair: Pair,
    client: ConnectionHandle,
    server: ConnectionHandle,
    unwritten: Vec<(StreamId, u64)>,
}

impl World {
    /// `stream_window`: of the receiving side, if not the default.
    fn new(rlp: RlpMode, stream_window: Option<u32>) -> Self {
        let rate = Rate::from_bits_per_second(1_000_000_000);
        let link = LinkConfig { rate, delay: Duration::from_millis(20), ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 5_000_000);
        config.client.rlp(rlp).nic_rate(rate).max_idle_timeout(None);
        config.server.rlp(rlp).max_idle_timeout(None);
        if let Some(bytes) = stream_window {
            config.server.stream_receive_window(bytes.into());
        }
        Self::over(config)
    }

    fn over(mut config: PairConfig) -> Self {
        config.batch = 10;
        let mut pair = Pair::new(config);
        let client = pair.connect();
        assert!(pair.drive_until(Duration::from_secs(1), |pair| !pair.server.accepted.is_empty()));
        let server = pair.server.accepted[0];
        Self { pair, client, server, unwritten: Vec::new() }
    }

    fn send(&mut self, bytes: u64) -> StreamId {
        let mut id = None;
        assert!(self.pair.drive_until(Duration::from_secs(1), |pair| {
            id = id.or_else(|| pair.client.with(self.client, |c| c.open(Dir::Uni)));
            id.is_some()
        }));
        self.unwritten.extend(id.map(|id| (id, bytes)));
        id.unwrap()
    }

    /// Writes what there is room for.
    fn step(
        pair: &mut Pair,
        ends: (ConnectionHandle, ConnectionHandle),
        unwritten: &mut Vec<(StreamId, u64)>,
    ) {
        for (id, left) in unwritten.iter_mut() {
            while *left > 0 {
                let data = Bytes::from_static(&ZEROES).slice(..(*left).min(MIB) as usize);
                match pair.client.with(ends.0, |c| c.write(*id, data)) {
                    Ok(taken) => *left -= taken as u64,
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error}"),
                }
                if *left == 0 {
                    pair.client.with(ends.0, |c| c.finish(*id)).unwrap();
                }
            }
        }
        unwritten.retain(|&(_, left)| left > 0);
    }

    /// Reads this stream to its end; the bytes it had. `None`: it did not end within the time.
    fn read(&mut self, id: StreamId, within: Duration) -> Option<u64> {
        let Self { pair, client, server, unwritten } = self;
        let (ends, mut read) = ((*client, *server), 0);
        let ended = pair.drive_until(within, |pair| {
            Self::step(pair, ends, unwritten);
            while pair.server.with(ends.1, |c| c.accept(Dir::Uni)).is_some() {}
            loop {
                match pair.server.with(ends.1, |c| c.read(id, usize::MAX, true)) {
                    Ok(Some(chunk)) => read += chunk.bytes.len() as u64,
                    Ok(None) => return true,
                    Err(ReadError::Blocked | ReadError::ClosedStream) => return false,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        ended.then_some(read)
    }

    fn wait(&mut self, time: Duration) {
        let Self { pair, client, server, unwritten } = self;
        pair.drive_until(time, |pair| {
            Self::step(pair, (*client, *server), unwritten);
            false
        });
    }

    fn unread(&self) -> u64 {
        self.pair.server.connection(self.server).unwrap().stats().received.buffered_bytes
    }
}

#[test]
fn others_pass_a_stream_that_waits_for_its_reader() {
    for (rlp, stream_window) in WORLDS {
        let mut world = World::new(rlp, stream_window);
        let waiting = world.send(160 * MIB);
        world.wait(Duration::from_secs(2));
        for round in 0..20 {
            let other = world.send(100_000);
            let read = world.read(other, Duration::from_secs(1));
            assert_eq!(read, Some(100_000), "{rlp:?}, round {round}, {} bytes unread", world.unread());
        }
        let unread = world.unread();
        println!("{rlp:?}: {unread} bytes unread");
        assert!(unread < 64 * MIB, "{rlp:?}: {unread} bytes unread");
        let read = world.read(waiting, Duration::from_secs(30));
        assert_eq!(read, Some(160 * MIB), "{rlp:?}");
    }
}

#[test]
fn streams_are_read_one_after_another() {
    for (rlp, stream_window) in WORLDS {
        let mut world = World::new(rlp, stream_window);
        let streams: Vec<_> = (0..12).map(|_| world.send(8 * MIB)).collect();
        for id in streams {
            let read = world.read(id, Duration::from_secs(10));
            assert_eq!(read, Some(8 * MIB), "{rlp:?} {id}, {} bytes unread", world.unread());
        }
    }
}

#[test]
fn what_peers_do_not_take_is_stored_within_two_windows() {
    const WINDOW: u64 = MIB;
    for rlp in [RlpMode::Off, RlpMode::Guard] {
        let mut config = PairConfig::symmetric(LinkConfig::default(), 1_000_000);
        config.client.rlp(rlp).send_window(WINDOW).max_idle_timeout(None);
        config.server.rlp(rlp).stream_receive_window((64_u32 << 10).into()).max_idle_timeout(None);
        let mut world = World::over(config);
        for _ in 0..10 {
            world.send(4 * MIB);
            world.wait(Duration::from_millis(200));
        }
        let unwritten: u64 = world.unwritten.iter().map(|&(_, left)| left).sum();
        let held = 10 * 4 * MIB - unwritten - world.unread();
        println!("{rlp:?}: {held} bytes written, not received");
        assert!((WINDOW..=3 * WINDOW).contains(&held), "{rlp:?}: {held} bytes");
    }
}

//! A bad network between one client and the server: real sockets on both sides, a link of the simulator in between.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rc3_core::units::{Level, Rate};
use rc3_sim::{DropTail, Impairments, Link, LinkConfig, Packet};

use crate::{random::Random, tally::Tally};

/// IPv4 and UDP headers in bytes.
const HEADERS: usize = 28;

/// What a network does to datagrams.
#[derive(Debug)]
pub(crate) struct Faults {
    link: LinkConfig,
    buffer: u64,
    /// One datagram in so many is damaged.
    damage_one_in: u64,
    /// Time between two changes of the address, if it changes.
    move_every: Option<Duration>,
}

impl Faults {
    /// A network that is bad, but not hopeless.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let impairments = Impairments {
            loss: random.share(0.03),
            duplicate: random.share(0.05),
            reorder: random.share(0.05),
            reorder_delay: random.time(Duration::from_millis(15)),
            ..Impairments::default()
        };
        Self {
            link: LinkConfig {
                rate: Rate::from_bits_per_second(5_000_000 + random.below(200_000_000)),
                delay: random.time(Duration::from_millis(15)),
                impairments,
                seed: random.next(),
                ..LinkConfig::default()
            },
            buffer: 20_000 + random.below(500_000),
            damage_one_in: 50 + random.below(500),
            move_every: random
                .one_in(2)
                .then(|| Duration::from_millis(300) + random.time(Duration::from_secs(2))),
        }
    }
}

/// A running relay. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    orders: Arc<Orders>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Orders {
    stop: AtomicBool,
    /// Until then all is well: a handshake may be ended by anybody on the path.
    faulty: AtomicBool,
    silent: AtomicBool,
}

impl Relay {
    pub(crate) fn start(
        server: SocketAddr,
        faults: Faults,
        random: Random,
        tally: Arc<Tally>,
    ) -> std::io::Result<Self> {
        let front = socket()?;
        let address = front.local_addr()?;
        let orders = Arc::<Orders>::default();
        let mut road = Road {
            front,
            backs: vec![socket()?],
            client: None,
            server,
            faults,
            random,
            tally,
            orders: orders.clone(),
        };
        let thread = thread::Builder::new().name("relay".into()).spawn(move || road.run())?;
        Ok(Self { address, orders, thread: Some(thread) })
    }

    /// Where the client finds the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins to be bad.
    pub(crate) fn be_faulty(&self) {
        self.orders.faulty.store(true, Relaxed);
    }

    /// Passes nothing on any more.
    pub(crate) fn fall_silent(&self) {
        self.orders.silent.store(true, Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.orders.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

struct Road {
    front: UdpSocket,
    /// The last is the one in use; the others still take answers.
    backs: Vec<UdpSocket>,
    client: Option<SocketAddr>,
    server: SocketAddr,
    faults: Faults,
    random: Random,
    tally: Arc<Tally>,
    orders: Arc<Orders>,
}

impl Road {
    fn run(&mut self) {
        let clean = LinkConfig::default();
        let mut links = [self.link(clean.clone()), self.link(clean)];
        let mut faulty = false;
        let mut next_move = None;
        let mut buf = vec![0; 1 << 16];
        while !self.orders.stop.load(Relaxed) {
            let now = Instant::now();
            if !faulty && self.orders.faulty.load(Relaxed) {
                faulty = true;
                links = [self.link(self.faults.link.clone()), self.link(self.faults.link.clone())];
                next_move = self.faults.move_every.map(|every| now + every);
            }
            if next_move.is_some_and(|at| at <= now) {
                next_move = self.faults.move_every.map(|every| now + every);
                self.change_address();
            }
            let mut moved = false;
            for _ in 0..64 {
                let Ok((len, from)) = self.front.recv_from(&mut buf) else { break };
                self.client = Some(from);
                self.take(&mut links[0], now, &buf[..len], faulty);
                moved = true;
            }
            for nth in 0..self.backs.len() {
                for _ in 0..64 {
                    let Ok((len, _)) = self.backs[nth].recv_from(&mut buf) else { break };
                    self.take(&mut links[1], now, &buf[..len], faulty);
                    moved = true;
                }
            }
            moved |= self.deliver(&mut links, now);
            if !moved {
                thread::sleep(Duration::from_micros(300));
            }
        }
    }

    fn link(&self, config: LinkConfig) -> Link<Vec<u8>> {
        Link::new(config, DropTail::new(self.faults.buffer))
    }

    fn take(&mut self, link: &mut Link<Vec<u8>>, now: Instant, datagram: &[u8], faulty: bool) {
        let mut payload = datagram.to_vec();
        if faulty && !payload.is_empty() && self.random.one_in(self.faults.damage_one_in) {
            let bit = self.random.below(payload.len() as u64 * 8) as usize;
            payload[bit / 8] ^= 1 << (bit % 8);
        }
        link.send(now, Packet { size: payload.len() + HEADERS, level: Level::PRIMARY, payload });
    }

    fn deliver(&self, links: &mut [Link<Vec<u8>>; 2], now: Instant) -> bool {
        let silent = self.orders.silent.load(Relaxed);
        let mut moved = false;
        // What a full buffer refuses is lost, as on any road.
        while let Some(datagram) = links[0].poll_output(now) {
            moved = true;
            if let Some(back) = self.backs.last().filter(|_| !silent) {
                let _ = back.send_to(&datagram, self.server);
            }
        }
        while let Some(datagram) = links[1].poll_output(now) {
            moved = true;
            if let Some(client) = self.client.filter(|_| !silent) {
                let _ = self.front.send_to(&datagram, client);
            }
        }
        moved
    }

    fn change_address(&mut self) {
        // Without another port the path stays as it is.
        if let Ok(back) = socket() {
            self.backs.push(back);
            if self.backs.len() > 3 {
                self.backs.remove(0);
            }
            Tally::count(&self.tally.moves, 1);
        }
    }
}

fn socket() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

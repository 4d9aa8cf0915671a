//! A bad network between one client and the server: real sockets on both sides, a link of the simulator in between.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rc3_core::units::{Level, Rate};
use rc3_link::random::Random;
use rc3_sim::{DropTail, Impairments, Link, LinkConfig, Packet};

use crate::{Result, tally::Tally};

/// IPv4 and UDP headers in bytes.
const HEADERS: usize = 28;

/// What a network does to datagrams.
#[derive(Debug)]
pub(crate) struct Faults {
    link: LinkConfig,
    buffer: u64,
    /// One datagram in so many is damaged.
    damage_one_in: usize,
    /// Time between two changes of the address, if it changes.
    move_every: Option<Duration>,
}

impl Faults {
    /// A network that is bad, but not hopeless.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let impairments = Impairments {
            loss: 0.03 * random.unit(),
            duplicate: 0.05 * random.unit(),
            reorder: 0.05 * random.unit(),
            reorder_delay: Duration::from_millis(15).mul_f64(random.unit()),
            ..Impairments::default()
        };
        Self {
            link: LinkConfig {
                rate: Rate::from_bits_per_second(5_000_000 + random.below(200_000_000) as u64),
                delay: Duration::from_millis(15).mul_f64(random.unit()),
                impairments,
                seed: random.bits(),
                ..LinkConfig::default()
            },
            buffer: 20_000 + random.below(500_000) as u64,
            damage_one_in: 50 + random.below(500),
            move_every: (random.below(2) == 0)
                .then(|| Duration::from_millis(300) + Duration::from_secs(2).mul_f64(random.unit())),
        }
    }
}

/// All is well: a handshake may be ended by anybody on the path.
const CLEAN: u8 = 0;
/// The faults happen.
const FAULTY: u8 = 1;
/// Nothing is passed on any more.
const SILENT: u8 = 2;
const STOPPED: u8 = 3;

/// A running relay. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Where the client finds the server.
    pub(crate) address: SocketAddr,
    state: Arc<AtomicU8>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn start(
        server: SocketAddr,
        faults: Faults,
        random: Random,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        let (front, back) = (socket()?, socket()?);
        let (address, state) = (front.local_addr()?, Arc::new(AtomicU8::new(CLEAN)));
        let mut road =
            Road { front, back, client: None, server, faults, random, tally, state: state.clone() };
        let thread = thread::Builder::new().name("relay".into()).spawn(move || road.run())?;
        Ok(Self { address, state, thread: Some(thread) })
    }

    /// Begins to be bad.
    pub(crate) fn be_faulty(&self) {
        self.state.store(FAULTY, Relaxed);
    }

    /// Passes nothing on any more.
    pub(crate) fn fall_silent(&self) {
        self.state.store(SILENT, Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.store(STOPPED, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

struct Road {
    front: UdpSocket,
    /// Its address is what the server sees of the client.
    back: UdpSocket,
    client: Option<SocketAddr>,
    server: SocketAddr,
    faults: Faults,
    random: Random,
    tally: Arc<Tally>,
    state: Arc<AtomicU8>,
}

impl Road {
    fn run(&mut self) {
        let mut before = CLEAN;
        let link = |config: &LinkConfig, buffer| Link::new(config.clone(), DropTail::new(buffer));
        let clean = LinkConfig::default();
        let mut links = [&clean, &clean].map(|config| link(config, self.faults.buffer));
        let mut moved = Instant::now();
        let mut buf = vec![0; 1 << 16];
        loop {
            let (now, state) = (Instant::now(), self.state.load(Relaxed));
            match state {
                STOPPED => return,
                FAULTY if before == CLEAN => {
                    links = [0, 1].map(|_| link(&self.faults.link, self.faults.buffer));
                    moved = now;
                }
                _ => {}
            }
            before = state;
            if state != CLEAN && self.faults.move_every.is_some_and(|every| now > moved + every) {
                moved = now;
                // Without another port the path stays as it is.
                if let Ok(back) = socket() {
                    self.back = back;
                    Tally::count(&self.tally.moves, 1);
                }
            }
            let mut idle = true;
            while let Ok((len, from)) = self.front.recv_from(&mut buf) {
                self.client = Some(from);
                self.take(&mut links[0], now, &buf[..len], state);
                idle = false;
            }
            while let Ok((len, _)) = self.back.recv_from(&mut buf) {
                self.take(&mut links[1], now, &buf[..len], state);
                idle = false;
            }
            let far_ends = [(&self.back, Some(self.server)), (&self.front, self.client)];
            for (link, (socket, to)) in links.iter_mut().zip(far_ends) {
                while let Some(datagram) = link.poll_output(now) {
                    idle = false;
                    if let Some(to) = to.filter(|_| state != SILENT) {
                        // What a full buffer refuses is lost, as on any road.
                        let _ = socket.send_to(&datagram, to);
                    }
                }
            }
            if idle {
                thread::sleep(Duration::from_micros(300));
            }
        }
    }

    fn take(&mut self, link: &mut Link<Vec<u8>>, now: Instant, datagram: &[u8], state: u8) {
        let mut payload = datagram.to_vec();
        if state != CLEAN && !payload.is_empty() && self.random.below(self.faults.damage_one_in) == 0 {
            let bit = self.random.below(payload.len() * 8);
            payload[bit / 8] ^= 1 << (bit % 8);
        }
        link.send(now, Packet { size: payload.len() + HEADERS, level: Level::PRIMARY, payload });
    }
}

fn socket() -> Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

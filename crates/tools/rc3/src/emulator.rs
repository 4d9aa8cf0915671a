//! A wide-area link in user space: real UDP sockets on both sides, a simulated bottleneck in between.
//!
//! The emulator needs neither privileges nor a kernel queue discipline, so the demonstration runs anywhere. Clients
//! connect to [`LinkEmulator::client_addr`] instead of the server; the server sees a separate peer for each client.
//! Each direction is one [`rc3_link::Link`], as in the simulator.
//!
//! One thread does all the work. While packets move it polls its sockets about every 100 us; otherwise it sleeps until
//! a packet arrives or is due. Late polling adds delay of that order but never changes the rate, because the link
//! computes its service times itself.
//!
//! Invariant: only the thread touches the sockets while it runs, except [`LinkEmulator::reset`] under the same lock.
//! Units: rates are bits per second on the wire, buffers bytes on the wire; a datagram counts as its payload plus 28
//! bytes of IPv4 and UDP headers.

mod discipline;
mod path;
mod port;
#[cfg(test)]
mod tests;
mod train;
mod world;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub use discipline::Discipline;
use rc3_core::units::Rate;
use rc3_link::LinkStats;
use rc3_net::{marks::Marks, socket::Socket};

use crate::system;
use world::EmulatedNetwork;

/// Most clients; packets of others are dropped.
pub const CLIENTS_MAX: usize = 64;

/// Sleep between two polls of the sockets while packets move. A longer sleep would turn a smooth flow into bursts, a
/// shorter one would cost a system call per packet.
const BUSY_PAUSE: Duration = Duration::from_micros(100);

/// Longest sleep. Bounds how long dropping the emulator takes and how much background traffic accumulates unprocessed.
const IDLE_MAX: Duration = Duration::from_millis(50);

/// The link to emulate.
#[derive(Debug, Clone, PartialEq)]
pub struct EmulatorConfig {
    /// Rate of each direction.
    pub rate: Rate,
    /// Round-trip propagation time; each direction has half of it.
    pub rtt: Duration,
    /// Buffer of each direction, bytes on the wire.
    pub buffer: u64,
    /// Probability that a packet is lost after the queue, independently, in each direction.
    pub loss: f64,
    /// Background traffic towards the server, as a fraction of the rate, below 1. Packets of 1500 bytes at normal
    /// priority come as a Poisson process, occupy queue and link, and end at the far side.
    pub load: f64,
    /// The queue of each direction. Background traffic is one flow. Packets that pass a policer do not wait elsewhere.
    pub queue: Discipline,
    /// The endpoints' table of marks. A packet has the best level with its code point; DSCP 0 and unknown code points
    /// are normal priority.
    pub marks: Marks,
    /// Seed of losses and background traffic.
    pub seed: u64,
}

impl EmulatorConfig {
    /// An undisturbed priority link with a buffer of one bandwidth-delay product (RC3 §5.1), at least 20 full
    /// packets.
    pub fn new(rate: Rate, rtt: Duration) -> Self {
        Self {
            rate,
            rtt,
            buffer: rate.bytes_in(rtt).max(20 * 1500),
            loss: 0.0,
            load: 0.0,
            queue: Discipline::Priority,
            marks: Marks::default(),
            seed: 1,
        }
    }
}

/// Statistics of the emulated link since its start or last reset.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmulatorStats {
    /// The direction from clients to the server. Background traffic counts at normal priority.
    pub to_server: LinkStats,
    /// The direction from the server to clients. Background traffic counts at normal priority.
    pub to_client: LinkStats,
    /// Clients in use.
    pub clients: usize,
    /// Packets that this host lost: for lack of a client slot or port, at sockets that could not send, and (where the
    /// system reports it) before the emulator could read them. Not part of the emulation: should be 0.
    pub failed: u64,
}

/// A running link. Dropping it stops it and loses packets in flight.
#[derive(Debug)]
pub struct LinkEmulator {
    client_addr: SocketAddr,
    shared: Arc<RunningEmulator>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RunningEmulator {
    world: Mutex<EmulatedNetwork>,
    stop: AtomicBool,
}

impl LinkEmulator {
    /// Starts a link to `server_addr` on the loopback interface, of the server's address family.
    ///
    /// # Errors
    /// If binding sockets or starting the thread fails.
    pub fn start(config: EmulatorConfig, server_addr: SocketAddr) -> io::Result<Self> {
        let world = EmulatedNetwork::new(config, server_addr, loopback(server_addr), Instant::now())?;
        let client_addr = world.client_addr()?;
        let shared = Arc::new(RunningEmulator { world: Mutex::new(world), stop: AtomicBool::new(false) });
        let runner = Arc::clone(&shared);
        let thread = thread::Builder::new().name("link-emulator".into()).spawn(move || runner.run())?;
        Ok(Self { client_addr, shared, thread: Some(thread) })
    }

    /// Where clients reach the server through the link.
    pub fn client_addr(&self) -> SocketAddr {
        self.client_addr
    }

    /// Empties the link, restarts its random choices from the seed, and clears its statistics, for the next run.
    /// Clients keep their ports.
    pub fn reset(&self) {
        self.shared.lock().reset(Instant::now());
    }

    /// Statistics so far.
    pub fn stats(&self) -> EmulatorStats {
        self.shared.lock().stats()
    }
}

impl Drop for LinkEmulator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panicking thread prints its panic itself; nothing else can be done here.
            let _ = thread.join();
        }
    }
}

impl RunningEmulator {
    /// Every step leaves the world consistent, so its counters are valid even after a panic.
    fn lock(&self) -> MutexGuard<'_, EmulatedNetwork> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut watched: Vec<Arc<Socket>> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let mut world = self.lock();
            let moved = world.step(now);
            let due = world.poll_timeout().map_or(IDLE_MAX, |at| at.saturating_duration_since(now));
            watched.clear();
            watched.extend(world.sockets().map(Arc::clone));
            drop(world);

            if moved {
                thread::sleep(due.min(BUSY_PAUSE));
            } else {
                wait(&watched, due.min(IDLE_MAX));
            }
        }
    }
}

/// Waits until a socket is readable, at most `timeout`.
fn wait(watched: &[Arc<Socket>], timeout: Duration) {
    if system::wait_readable(watched, timeout).is_err() {
        // Interrupted, out of memory, or no such call: not in a tight loop.
        thread::sleep(BUSY_PAUSE);
    }
}

/// Any port of the loopback address of `address`'s family.
fn loopback(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, 0)
}

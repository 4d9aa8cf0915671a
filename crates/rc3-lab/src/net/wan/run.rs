//! The process: one thread that waits for packets, times and questions.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    num::NonZeroU64,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

use kickass::packet::Packet;
use kickass_tools::forward::device::{Device, DeviceConfig};
use rc3_core::units::Level;
use rc3_link::{LevelStats, Link};
use rc3_queue::Levels;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    thread::set_current_timer_slack,
};

use serde::{Deserialize, Serialize};

use super::{
    config::{DEVICES, WanConfig},
    meddling::Meddler,
    middlebox::Machine,
    seen::Seen,
};
use crate::net::{act::watch::Waits, clock};

/// Packets read from a device before the other has its turn.
const READ_BATCH: usize = 64;
/// Packets written at once.
const WRITE_BATCH: usize = 256;
/// The longest packet of a device, in bytes.
const MTU: u16 = 1500;
/// The kernel may extend sleeps by so many nanoseconds; its default is 50 us.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;
/// CS1 is a mark of low priority in many networks, as lower effort is.
const CS1: u8 = 8;
const LOWEST: u8 = Levels::COUNT as u8 - 1;

/// What the WAN did since the report before, as a line of JSON; both directions together, where nothing else is written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WanReport {
    /// How late 99 % of the packets left at most.
    pub late_p99: Duration,
    /// The latest.
    pub late_max: Duration,
    /// Packets the devices did not take back.
    pub refused: u64,
    /// Packets towards the receiver that the queue dropped.
    pub dropped: u64,
    /// Packets towards the receiver that were lost behind the queue.
    pub lost: u64,
    /// Nanoseconds of [`clock::now`].
    pub at: u64,
    /// Bytes by code point that have left towards the receiver since the start.
    pub bytes: BTreeMap<u8, u64>,
    /// Of the queue of a recipe, which the WAN itself does not see.
    #[serde(default)]
    pub waits: Waits,
    /// QUIC between the client and the server, since the start.
    #[serde(default)]
    pub seen: Seen,
}

struct WanRouter {
    devices: [Device; 2],
    links: [Link<Packet>; 2],
    middlebox: Machine,
    meddler: Meddler,
    levels: Levels,
    /// How late packets left, in microseconds.
    late: Histogram<u64>,
    /// What has happened since the last report, except what `late` and `reported` know.
    report: WanReport,
    /// Totals of the link to the receiver at the last report.
    reported: LevelStats,
}

/// Runs until standard input ends. Each line on standard input is answered by a [`WanReport`] on standard output; so
/// is the start, with an empty one.
///
/// # Errors
/// If devices cannot be made, a trace cannot be read, or the system fails.
pub fn run(config: &WanConfig) -> io::Result<()> {
    let open = |name: &str| {
        let (name, netns) = (name.to_owned(), Some(config.netns.clone()));
        let config = DeviceConfig { name, netns, addresses: Vec::new(), mtu: MTU, offload: false };
        Device::open(&config).map_err(io::Error::other)
    };
    let devices = [open(DEVICES[0])?, open(DEVICES[1])?];
    set_current_timer_slack(Some(TIMER_SLACK))?;
    let mut wan = WanRouter {
        devices,
        links: config.links()?,
        middlebox: Machine::new(config.path.middlebox),
        meddler: Meddler::new(config.meddling.clone(), config.seed),
        levels: Levels::ladder().with(CS1, LOWEST),
        late: Histogram::new(3).map_err(io::Error::other)?,
        report: WanReport::default(),
        reported: LevelStats::default(),
    };
    wan.report()?;
    wan.run()
}

impl WanRouter {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.transmit();
            let [a, b, asked] = self.wait()?;
            for (nth, readable) in [a, b].into_iter().enumerate() {
                if readable {
                    self.receive(nth)?;
                }
            }
            if asked && !self.answer()? {
                return Ok(());
            }
        }
    }

    /// Reads a batch from a device.
    fn receive(&mut self, nth: usize) -> io::Result<()> {
        for _ in 0..READ_BATCH {
            let mut bytes = vec![0; usize::from(MTU)];
            let Some((len, _)) = self.devices[nth].read_offloaded(&mut bytes, &mut [])? else { break };
            bytes.truncate(len);
            let Ok(packet) = Packet::parse(bytes) else { continue };
            let now = Instant::now();
            let Some(packet) = self.meddler.handle(now, nth == 1, packet) else { continue };
            let packets = if nth == 0 { self.middlebox.handle(packet) } else { vec![packet] };
            for payload in packets {
                let level = Level::new(self.levels.of(payload.dscp())).unwrap_or(Level::MAX);
                let packet = rc3_link::Packet { size: payload.total_len(), level, payload };
                self.links[nth].send(now, packet);
            }
        }
        Ok(())
    }

    /// Writes a batch of what is due.
    fn transmit(&mut self) {
        for (nth, link) in self.links.iter_mut().enumerate() {
            for _ in 0..WRITE_BATCH {
                let now = Instant::now();
                // Lets packets start on their way, so that the next time is that of a packet.
                link.queue_bytes(now);
                let Some(due) = link.poll_timeout() else { break };
                let Some(packet) = link.poll_output(now) else { break };
                self.late.saturating_record(now.saturating_duration_since(due).as_micros() as u64);
                if !self.devices[1 - nth].write(packet.as_bytes()) {
                    self.report.refused += 1;
                }
                if nth == 0 {
                    *self.report.bytes.entry(packet.dscp()).or_default() += packet.total_len() as u64;
                }
            }
        }
    }

    /// Waits until a device is readable, a packet is due, or somebody asks.
    fn wait(&self) -> io::Result<[bool; 3]> {
        let due = self.links.iter().filter_map(Link::poll_timeout).min();
        let timeout = due
            .map(|due| due.saturating_duration_since(Instant::now()))
            .and_then(|timeout| Timespec::try_from(timeout).ok());
        let input = io::stdin();
        let [a, b] = &self.devices;
        let mut fds =
            [a.as_fd(), b.as_fd(), input.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[..DEVICES.len()].iter().any(|fd| fd.revents().contains(PollFlags::ERR)) {
            return Err(io::Error::other("a device of the WAN was removed"));
        }
        Ok(fds.map(|fd| fd.revents().intersects(PollFlags::IN | PollFlags::HUP)))
    }

    /// Answers a line; false at the end of the input.
    fn answer(&mut self) -> io::Result<bool> {
        // One at a time: who asks waits for the answer.
        let is_asked = rustix::io::read(io::stdin(), &mut [0; 64][..])? > 0;
        if is_asked { self.report().map(|()| true) } else { Ok(false) }
    }

    fn report(&mut self) -> io::Result<()> {
        let totals = self.links[0].stats().total();
        let micros = Duration::from_micros;
        self.report = WanReport {
            late_p99: micros(self.late.value_at_quantile(0.99)),
            late_max: micros(self.late.max()),
            dropped: totals.dropped.packets - self.reported.dropped.packets,
            lost: totals.lost.packets - self.reported.lost.packets,
            at: clock::now(),
            seen: self.meddler.seen.clone(),
            ..std::mem::take(&mut self.report)
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&self.report)?)?;
        self.late.reset();
        self.report.refused = 0;
        self.reported = totals;
        out.flush()
    }
}

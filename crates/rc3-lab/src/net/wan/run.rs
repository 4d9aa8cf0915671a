//! The process: one thread that waits for packets, times and questions.

use std::{
    io::{self, Write},
    num::NonZeroU64,
    os::fd::AsFd,
    time::Instant,
};

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

use super::{
    config::WanConfig, lateness::Lateness, middlebox::Machine, report::WanReport, timeline::Timeline,
};
use crate::net::clock;

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

/// One direction.
struct Direction {
    middlebox: Machine,
    link: Link<Packet>,
    late: Lateness,
    /// Packets that the device at the far end did not take.
    refused: u64,
}

struct Wan {
    devices: [Device; 2],
    directions: [Direction; 2],
    levels: Levels,
    timeline: Option<Timeline>,
    /// Totals of the link to the receiver at the last report.
    reported: LevelStats,
}

/// Runs until standard input ends. Each line on standard input is answered by a [`WanReport`] on standard output; so
/// is the start, with an empty one.
///
/// # Errors
/// If devices cannot be made, a trace cannot be read, or the system fails.
pub fn run(config: &WanConfig) -> io::Result<()> {
    let open = |name: &String| {
        let netns = Some(config.netns.clone());
        let config =
            DeviceConfig { name: name.clone(), netns, addresses: Vec::new(), mtu: MTU, offload: false };
        Device::open(&config).map_err(io::Error::other)
    };
    let [a, b] = &config.devices;
    let devices = [open(a)?, open(b)?];
    let direction = |nth: usize| {
        let link = config.links[nth].link()?;
        let middlebox = Machine::new(config.links[nth].middlebox);
        io::Result::Ok(Direction { middlebox, link, late: Lateness::default(), refused: 0 })
    };
    let directions = [direction(0)?, direction(1)?];
    set_current_timer_slack(Some(TIMER_SLACK))?;
    let mut wan = Wan {
        devices,
        directions,
        levels: Levels::ladder().with(CS1, LOWEST),
        timeline: config.timeline.clone().map(Timeline::new),
        reported: LevelStats::default(),
    };
    wan.report()?;
    wan.run()
}

impl Wan {
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
                return self.timeline.as_ref().map_or(Ok(()), Timeline::write);
            }
        }
    }

    /// Reads a batch from a device.
    fn receive(&mut self, nth: usize) -> io::Result<()> {
        for _ in 0..READ_BATCH {
            let mut bytes = Vec::with_capacity(usize::from(MTU));
            if !self.devices[nth].read(&mut bytes)? {
                break;
            }
            let Ok(packet) = Packet::parse(bytes) else { continue };
            let Direction { middlebox, link, .. } = &mut self.directions[nth];
            let now = Instant::now();
            for payload in middlebox.handle(now, packet) {
                let level = Level::new(self.levels.of(payload.dscp())).unwrap_or(Level::MAX);
                link.send(now, rc3_link::Packet { size: payload.total_len(), level, payload });
            }
        }
        Ok(())
    }

    /// Writes a batch of what is due.
    fn transmit(&mut self) {
        for (nth, direction) in self.directions.iter_mut().enumerate() {
            let Direction { link, late, refused, .. } = direction;
            for _ in 0..WRITE_BATCH {
                let now = Instant::now();
                // Lets packets start on their way, so that the next time is that of a packet.
                link.queue_bytes(now);
                let Some(due) = link.poll_timeout() else { break };
                let Some(packet) = link.poll_output(now) else { break };
                late.add(now.saturating_duration_since(due));
                if !self.devices[1 - nth].write(packet.as_bytes()) {
                    *refused += 1;
                }
                if nth == 0
                    && let Some(timeline) = &mut self.timeline
                {
                    timeline.add(clock::now(), &packet);
                }
            }
        }
    }

    /// Waits until a device is readable, a packet is due, or somebody asks.
    fn wait(&self) -> io::Result<[bool; 3]> {
        let due = self.directions.iter().filter_map(|direction| direction.link.poll_timeout()).min();
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
        Ok(fds.map(|fd| fd.revents().intersects(PollFlags::IN | PollFlags::HUP)))
    }

    /// Answers each line; false at the end of the input.
    fn answer(&mut self) -> io::Result<bool> {
        let mut words = [0; 64];
        let read = rustix::io::read(io::stdin(), &mut words[..])?;
        for _ in words[..read].iter().filter(|byte| **byte == b'\n') {
            self.report()?;
        }
        Ok(read > 0)
    }

    fn report(&mut self) -> io::Result<()> {
        let mut late = Lateness::default();
        let mut refused = 0;
        for direction in &mut self.directions {
            late.merge(&std::mem::take(&mut direction.late));
            refused += std::mem::take(&mut direction.refused);
        }
        let totals = self.directions[0].link.stats().total();
        let report = WanReport::new(&late, refused, &self.reported, &totals);
        self.reported = totals;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
        out.flush()
    }
}

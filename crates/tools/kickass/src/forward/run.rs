//! A forwarder between devices: one thread that waits for packets, timeouts, signals and metrics requests.

use std::{
    fs, io,
    net::TcpListener,
    num::NonZeroU64,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kickass::offload::SegmentRun;
use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    thread::set_current_timer_slack,
};

use super::{
    config::{Config, ConfigError},
    device::{Device, DeviceConfig},
    error::ForwardError,
    forwarder::Forwarder,
    metrics::Asked,
    privileges::{self, Identity},
    statistics::Totals,
};

/// Most reads from a device before others have their turn.
const READ_BATCH: usize = 64;
/// Bytes of reads after which others have their turn, likewise.
const READ_BYTES: usize = 256 << 10;
/// Packets after which others have their turn, likewise: a read can be a super-packet of many.
const READ_PACKETS: usize = 256;
/// Packets written to a device in a turn, for each that may be read in it from one device: what all devices bring in a turn
/// may go to one, each packet in two fragments. So packets do not pile up, and what is too much stays in the queue of the
/// device that it comes from. It is bounded because the kernel would drop other packets meanwhile.
const WRITES_PER_READ: usize = 2;
/// Shorter super-packets move to a buffer of their length, because a segment keeps the whole buffer.
const LONG_MIN: usize = 16 << 10;
/// Timer slack of the kernel; the default is 50 us.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;

/// Events of a running forwarder.
#[derive(Debug)]
pub enum ForwarderEvent<'a> {
    /// Packets are forwarded from now on.
    Ready(&'a Config),
    /// The file was reloaded and is now in effect.
    Reloaded,
    /// The reloaded file is invalid: the old configuration stays.
    NotReloaded(ForwardError),
    /// Statistics are due: current totals, those of the previous report, and the time between.
    Statistics {
        /// Since the start.
        totals: &'a Totals,
        /// Totals at the previous report.
        earlier: Option<&'a Totals>,
        /// Time since the previous report.
        interval: Duration,
        /// How long it has run.
        uptime: Duration,
    },
    /// The forwarder stops: totals since its start.
    Stopped(&'a Totals, Duration),
}

/// Reads a configuration file.
///
/// # Errors
/// If it cannot be read or is invalid.
pub fn load(path: &Path) -> Result<Config, ForwardError> {
    let failed = ForwardError::unusable(path.display(), "pass the right file with --config FILE");
    let text = fs::read_to_string(path).map_err(failed)?;
    Ok(Config::parse(&text, &path.display().to_string())?)
}

/// Forwards until SIGINT or SIGTERM. SIGHUP reloads the file.
///
/// This thread, and all threads started later, drop their privileges once everything is open. There must be no other
/// threads.
///
/// # Errors
/// If opening fails, or the system fails later.
pub fn run(path: &Path, on_event: impl FnMut(ForwarderEvent<'_>)) -> Result<(), ForwardError> {
    let config = load(path)?;
    let hint = "set forward.user and forward.group, and start it as root";
    let no_privileges = ForwardError::unusable("user or group", hint);
    let no_metrics = ForwardError::unusable("metrics", "check forward.prometheus");
    let identity = Identity::find(&config.forward).map_err(&no_privileges)?;
    let offload = config.forward.offload;
    let devices = config.port.iter().map(|port| Device::open(&DeviceConfig::new(port, offload)));
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    let listener = config.forward.prometheus.map(TcpListener::bind).transpose();
    let listener = listener.map_err(&no_metrics)?;
    let mut seed = [0; 8];
    SystemRandom::new().fill(&mut seed).map_err(|_| io::Error::other("the system has no random numbers"))?;
    // Before threads start, so that they inherit it.
    let signals = signals()?;
    set_current_timer_slack(Some(TIMER_SLACK)).map_err(io::Error::from)?;
    privileges::give_up(identity).map_err(no_privileges)?;
    let asked = listener.map(Asked::serve).transpose().map_err(no_metrics)?;

    let started = Instant::now();
    let mut forwarder = Forwarder::new(&config, u64::from_ne_bytes(seed), started);
    let inbox = Inbox { short: forwarder.buffer(), long: forwarder.long_buffer() };
    let path = path.to_owned();
    let mut running = Running {
        path,
        config,
        devices,
        signals,
        asked,
        forwarder,
        inbox,
        outbox: Outbox::default(),
        started,
        last: (started, None),
        on_event,
    };
    running.run()
}

fn signals() -> io::Result<SignalFd> {
    let set: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

struct Running<T> {
    path: PathBuf,
    config: Config,
    devices: Vec<Device>,
    signals: SignalFd,
    asked: Option<Asked>,
    forwarder: Forwarder,
    inbox: Inbox,
    outbox: Outbox,
    started: Instant,
    /// The last report of statistics and its time.
    last: (Instant, Option<Totals>),
    on_event: T,
}

/// Buffers for the next packet.
struct Inbox {
    short: Vec<u8>,
    long: Vec<u8>,
}

impl Inbox {
    /// The packet of this length that was read, and a new buffer in its place.
    fn take(&mut self, len: usize, forwarder: &mut Forwarder) -> Vec<u8> {
        let Self { short, long } = self;
        if len < short.len() / 2 {
            return short[..len].to_vec();
        }
        if len <= short.len() {
            let mut packet = std::mem::replace(short, forwarder.buffer());
            packet.truncate(len);
            return packet;
        }
        long[..short.len()].copy_from_slice(short);
        if len < LONG_MIN {
            return long[..len].to_vec();
        }
        let mut packet = std::mem::replace(long, forwarder.long_buffer());
        packet.truncate(len);
        packet
    }
}

/// What is being written.
#[derive(Default)]
struct Outbox {
    run: SegmentRun,
    header: Vec<u8>,
}

/// Pending work other than timeouts.
struct Woken {
    signals: bool,
    asked: bool,
    /// By device.
    readable: Vec<bool>,
}

impl<T: FnMut(ForwarderEvent<'_>)> Running<T> {
    fn run(&mut self) -> Result<(), ForwardError> {
        (self.on_event)(ForwarderEvent::Ready(&self.config));
        let mut woken = Woken { signals: false, asked: false, readable: vec![false; self.devices.len()] };
        loop {
            self.transmit(Instant::now());
            self.tell_statistics(Instant::now());
            self.wait(&mut woken)?;
            let now = Instant::now();
            self.forwarder.advance(now);
            for port in 0..self.devices.len() {
                if woken.readable[port] {
                    self.receive(now, port)?;
                }
            }
            if woken.signals && self.handle_signals()? {
                return Ok(());
            }
            if woken.asked
                && let Some(asked) = &mut self.asked
            {
                let forwarder = &self.forwarder;
                asked.answer(|| forwarder.totals());
            }
        }
    }

    /// Writes a batch of due packets.
    fn transmit(&mut self, now: Instant) {
        self.forwarder.advance(now);
        for port in 0..self.devices.len() {
            let mut left = WRITES_PER_READ * READ_PACKETS * self.devices.len();
            while left > 0 {
                let written = self.transmit_one(now, port, left);
                if written == 0 {
                    break;
                }
                left -= written;
            }
        }
    }

    /// Writes the next packet or run; returns how many packets that are.
    fn transmit_one(&mut self, now: Instant, port: usize, segments_max: usize) -> usize {
        let (device, Outbox { run, header }) = (&self.devices[port], &mut self.outbox);
        let limits = device.run_limits(segments_max);
        let Some(packet) = self.forwarder.poll_transmit(now, port, limits, run) else {
            let segments = run.segments();
            if segments > 0 {
                let taken = device.write_run(run, header);
                self.forwarder.on_transmit(port, segments, run.bytes(), taken);
                run.clear(|buffer| self.forwarder.recycle(buffer));
            }
            return segments;
        };
        let taken = device.write(&packet);
        self.forwarder.on_transmit(port, 1, packet.len(), taken);
        self.forwarder.recycle(packet);
        1
    }

    /// Reads a batch.
    fn receive(&mut self, now: Instant, port: usize) -> io::Result<()> {
        let (mut bytes, mut packets) = (0, 0);
        for _ in 0..READ_BATCH {
            let Inbox { short, long } = &mut self.inbox;
            let Some((len, offload)) = self.devices[port].read_offloaded(short, long)? else { break };
            let packet = self.inbox.take(len, &mut self.forwarder);
            packets += self.forwarder.receive(now, port, packet, offload);
            bytes += len;
            if bytes >= READ_BYTES || packets >= READ_PACKETS {
                break;
            }
        }
        Ok(())
    }

    fn tell_statistics(&mut self, now: Instant) {
        let Some(every) = self.config.forward.statistics else { return };
        let (last, earlier) = &mut self.last;
        if now < *last + every {
            return;
        }
        let totals = self.forwarder.totals();
        (self.on_event)(ForwarderEvent::Statistics {
            totals: &totals,
            earlier: earlier.as_ref(),
            interval: now - *last,
            uptime: now - self.started,
        });
        self.last = (now, Some(totals));
    }

    fn wait(&self, woken: &mut Woken) -> Result<(), ForwardError> {
        let statistics = self.config.forward.statistics.map(|every| self.last.0 + every);
        let until = self.forwarder.poll_timeout().into_iter().chain(statistics).min();
        let timeout = until
            .map(|until| until.saturating_duration_since(Instant::now()))
            .and_then(|timeout| Timespec::try_from(timeout).ok());
        let asked = self.asked.as_ref().map(AsFd::as_fd);
        let signals = self.signals.as_fd();
        let fds = self.devices.iter().map(AsFd::as_fd).chain([signals]).chain(asked);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        if let Some((port, _)) =
            self.config.port.iter().zip(&fds).find(|(_, fd)| fd.revents().contains(PollFlags::ERR))
        {
            let what = format_args!("device `{}`", port.name);
            let hint = "start the forwarder again, it creates the device";
            return Err(ForwardError::unusable(what, hint)(io::Error::other("it was removed")));
        }
        let mut ready = fds.iter().map(|fd| fd.revents().intersects(PollFlags::IN));
        woken.readable.iter_mut().zip(&mut ready).for_each(|(readable, ready)| *readable = ready);
        woken.signals = ready.next().unwrap_or(false);
        woken.asked = ready.next().unwrap_or(false);
        Ok(())
    }

    /// Handles signals; returns whether to stop.
    fn handle_signals(&mut self) -> Result<bool, ForwardError> {
        let mut reload = false;
        while let Some(signal) = self.signals.read_signal().map_err(io::Error::from)? {
            if signal.ssi_signo != Signal::SIGHUP as u32 {
                let totals = self.forwarder.totals();
                (self.on_event)(ForwarderEvent::Stopped(&totals, self.started.elapsed()));
                return Ok(true);
            }
            reload = true;
        }
        if reload {
            let reloaded = self.reload();
            (self.on_event)(match reloaded {
                Ok(()) => ForwarderEvent::Reloaded,
                Err(error) => ForwarderEvent::NotReloaded(error),
            });
        }
        Ok(false)
    }

    fn reload(&mut self) -> Result<(), ForwardError> {
        let config = load(&self.path)?;
        self.config.check_reload(&config).map_err(|fault| ConfigError {
            file: self.path.display().to_string(),
            line: None,
            key: fault.key,
            message: fault.message,
        })?;
        self.forwarder.reload(&config, Instant::now());
        self.config = config;
        Ok(())
    }
}

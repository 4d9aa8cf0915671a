//! The asking side.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use kickass::code::Code;
use ring::rand::{SecureRandom, SystemRandom};
use rustix::net::sockopt::{Ipv6PathMtuDiscovery, set_ipv6_mtu_discover};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    message::{Form, ProbeMessage},
    question,
    report::ProbeReport,
    tally::SweepTally,
};

/// Longest wait for answers after the last question.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to check for all answers.
const LOOK: Duration = Duration::from_millis(50);
/// Raw sockets that take packets with their headers.
const RAW: u8 = 255;

/// Parameters of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepPlan {
    /// The listening host.
    pub target: SocketAddr,
    /// Number of questions for each length.
    pub tries: u8,
    /// Time between questions.
    pub interval: Duration,
}

/// Probes every code: whole, fragmented if this process may, and in IPv6 whole with a Fragment header.
///
/// # Errors
/// When a socket fails.
pub fn sweep(plan: &SweepPlan) -> io::Result<ProbeReport> {
    let any = if plan.target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(plan.target)?;
    if plan.target.is_ipv6() {
        // The default for IPv4.
        set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO)?;
    }
    let local = socket.local_addr()?;
    // Raw sockets of this protocol take packets with their headers.
    let raw = Socket::new(Domain::for_address(plan.target), Type::RAW, Some(Protocol::from(i32::from(RAW))));
    let raw = match raw {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
        raw => Some(raw?),
    };
    let mut run = [0; 8];
    SystemRandom::new().fill(&mut run).map_err(|_| io::Error::other("the system has no random numbers"))?;
    let run = u64::from_ne_bytes(run);

    let mut sweep = Sweep {
        socket,
        local,
        raw,
        plan,
        tally: SweepTally::new(run, plan.tries, question::headers(plan.target)),
    };
    // All lengths, then all again: a short disturbance of the path then does not hit a single length.
    for attempt in 0..plan.tries {
        for code in Code::all() {
            for &form in question::forms(plan.target) {
                sweep.ask(sweep.tally.question(form, code, attempt))?;
            }
        }
    }
    let end = Instant::now() + PATIENCE;
    while !sweep.tally.is_complete() && Instant::now() < end {
        sweep.listen_until(end.min(Instant::now() + LOOK))?;
    }
    Ok(sweep.tally.report())
}

struct Sweep<'a> {
    socket: UdpSocket,
    local: SocketAddr,
    /// Sends packets with headers of this process; without it the kernel adds them, with Don't Fragment.
    raw: Option<Socket>,
    plan: &'a SweepPlan,
    tally: SweepTally,
}

impl Sweep<'_> {
    fn ask(&mut self, message: ProbeMessage) -> io::Result<()> {
        if self.send(message) {
            self.tally.asked(&message);
            self.listen_until(Instant::now() + self.plan.interval)?;
        }
        Ok(())
    }

    /// Whether the question was possible and left this host.
    fn send(&self, message: ProbeMessage) -> bool {
        let Some(payload) = question::payload(&message, self.plan.target) else { return false };
        let Some(raw) = &self.raw else {
            return message.form == Form::Whole && self.socket.send(&payload).is_ok();
        };
        let Some(packets) = question::packets(&message, &payload, self.local, self.plan.target) else {
            return false;
        };
        let mut to = self.plan.target;
        // In IPv6 the protocol would have to be that of the payload.
        to.set_port(0);
        packets.iter().all(|part| raw.send_to(part.as_bytes(), &SockAddr::from(to)).is_ok())
    }

    fn listen_until(&mut self, end: Instant) -> io::Result<()> {
        let mut bytes = [0; 64];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(&mut bytes) {
                Ok(len) => self.tally.heard(&bytes[..len]),
                // A timeout, or an ICMP error about a question: the length does not arrive.
                Err(_) => continue,
            }
        }
    }
}

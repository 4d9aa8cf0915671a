//! The asking side.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    time::{Duration, Instant},
};

use etherparse::{IpHeaders, Ipv4Header, PacketBuilder, ip_number};
use kickass::{code::Code, packet::Packet};
use ring::rand::{SecureRandom, SystemRandom};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    message::{Form, Message},
    report::{Report, Survival},
};

/// A fragmented question is as long as an Ethernet frame lets it.
const TOTAL_LEN: usize = 1500;
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const HOP_LIMIT: u8 = 64;
/// Answers come at most so long after the last question.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to see whether all have come.
const LOOK: Duration = Duration::from_millis(50);
/// Of sockets that take packets with their headers.
const RAW: u8 = 255;

/// How to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Who answers.
    pub target: SocketAddrV4,
    /// How often each length is asked about.
    pub tries: u8,
    /// Time between questions.
    pub interval: Duration,
}

/// How questions leave.
enum Way {
    /// As they are written.
    Raw(Socket),
    /// As the kernel writes them: whole, and with Don't Fragment.
    Plain,
}

/// Asks about every code, each whole and, if this process may, fragmented.
///
/// # Errors
/// When a socket fails.
pub fn sweep(plan: &Plan) -> io::Result<Report> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(plan.target)?;
    let SocketAddr::V4(local) = socket.local_addr()? else {
        return Err(io::Error::other("no address of IPv4 leads there"));
    };
    // Raw sockets of this protocol take packets with their headers.
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(RAW))));
    let way = match raw {
        Ok(raw) => Way::Raw(raw),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Way::Plain,
        Err(error) => return Err(error),
    };
    let mut run = [0; 8];
    SystemRandom::new().fill(&mut run).map_err(|_| io::Error::other("no random numbers"))?;
    let run = u64::from_ne_bytes(run);

    let mut sweep = Sweep { socket, local, way, plan, run, found: BTreeMap::new(), answered: HashSet::new() };
    // All lengths, then all again: what befalls the path for a moment befalls no single length.
    for attempt in 0..plan.tries {
        for code in Code::all() {
            for form in [Form::Whole, Form::Fragmented] {
                sweep.ask(Message { run, form, code, attempt })?;
            }
        }
    }
    let end = Instant::now() + PATIENCE;
    while !sweep.is_complete() && Instant::now() < end {
        sweep.listen_until(end.min(Instant::now() + LOOK))?;
    }
    Ok(Report::new(&sweep.found))
}

struct Sweep<'a> {
    socket: UdpSocket,
    local: SocketAddrV4,
    way: Way,
    plan: &'a Plan,
    run: u64,
    found: BTreeMap<(Code, Form), Survival>,
    /// Networks may repeat packets.
    answered: HashSet<(usize, bool, u8)>,
}

impl Sweep<'_> {
    fn ask(&mut self, message: Message) -> io::Result<()> {
        if self.send(message) {
            self.found.entry((message.code, message.form)).or_default().sent += 1;
            self.listen_until(Instant::now() + self.plan.interval)?;
        }
        Ok(())
    }

    /// Whether the question could be put and left this host.
    fn send(&self, message: Message) -> bool {
        let total_len = match message.form {
            Form::Whole => IP_HEADER + message.code.payload_len(),
            Form::Fragmented => TOTAL_LEN,
        };
        let Some(len) = total_len.checked_sub(IP_HEADER + UDP_HEADER).filter(|len| *len >= Message::LEN)
        else {
            return false;
        };
        let question = message.question(len);
        match (&self.way, message.form) {
            (Way::Plain, Form::Whole) => self.socket.send(&question).is_ok(),
            (Way::Plain, Form::Fragmented) => false,
            (Way::Raw(raw), form) => {
                // Different ones for all that may be under way.
                let identification = 1 + u16::from(message.attempt) + message.code.payload_len() as u16 * 37;
                let Some(packet) = self.packet(&question, form, identification) else { return false };
                let parts = match form {
                    Form::Whole => vec![packet],
                    Form::Fragmented => {
                        let mut leading = packet;
                        // The longest code leaves nothing for another fragment.
                        let Ok(rest) = leading.split(message.code.payload_len(), 0) else { return false };
                        vec![leading, rest]
                    }
                };
                let to = SockAddr::from(self.plan.target);
                parts.iter().all(|part| raw.send_to(part.as_bytes(), &to).is_ok())
            }
        }
    }

    fn packet(&self, question: &[u8], form: Form, identification: u16) -> Option<Packet> {
        let (from, to) = (self.local, self.plan.target);
        let addresses = (from.ip().octets(), to.ip().octets());
        let mut header = Ipv4Header::new(0, HOP_LIMIT, ip_number::UDP, addresses.0, addresses.1).ok()?;
        header.dont_fragment = form == Form::Whole;
        header.identification = identification;
        let builder = PacketBuilder::ip(IpHeaders::Ipv4(header, Default::default()));
        let mut bytes = Vec::new();
        builder.udp(from.port(), to.port()).write(&mut bytes, question).ok()?;
        Packet::parse(bytes).ok()
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
                Ok(len) => self.hear(&bytes[..len]),
                // A timeout, or a message of ICMP about a question: the length does not arrive.
                Err(_) => continue,
            }
        }
    }

    /// Whether all questions were answered.
    fn is_complete(&self) -> bool {
        self.found.values().all(|survival| survival.arrived == survival.sent)
    }

    fn hear(&mut self, bytes: &[u8]) {
        let Some(answer) = Message::parse_answer(bytes).filter(|answer| answer.run == self.run) else {
            return;
        };
        let Message { form, code, attempt, .. } = answer;
        let Some(survival) = self.found.get_mut(&(code, form)) else { return };
        if attempt < self.plan.tries
            && self.answered.insert((code.payload_len(), form == Form::Fragmented, attempt))
        {
            survival.arrived += 1;
        }
    }
}

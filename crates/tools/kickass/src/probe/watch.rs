//! The packets in which questions arrive, as a packet socket shows them before the kernel reassembles them.

use std::{
    collections::VecDeque,
    io::{self, Read},
    net::IpAddr,
};

use kickass::packet::Packet;
use socket2::{Domain, Protocol, Socket, Type};

use super::message::Seen;

/// IPv4 and IPv6 on Ethernet.
const ETHERTYPES: [u16; 2] = [0x0800, 0x86dd];
/// UDP in IP headers.
const UDP: u8 = 17;
/// Longest packet that is read whole, in bytes; questions have at most 1500.
const PACKET_MAX: usize = 2048;
/// Packets that wait for their question. Strangers who send more to the port make lengths unknown, or wrong if they
/// forge the address of the other host.
const KEPT: usize = 1024;

/// Packet sockets, and the last packets to a port that they have shown.
pub(super) struct PacketWatch {
    sockets: Vec<Socket>,
    recent: Recent,
}

impl PacketWatch {
    /// `None` without CAP_NET_RAW.
    pub(super) fn open(port: u16) -> io::Result<Option<Self>> {
        let mut sockets = Vec::new();
        for ethertype in ETHERTYPES {
            // Packet sockets take the type in network byte order. Without headers of the link, packets begin with IP.
            let protocol = Protocol::from(i32::from(ethertype.to_be()));
            match Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)) {
                Ok(socket) => sockets.push(socket),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        sockets.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        Ok(Some(Self { sockets, recent: Recent { port, packets: VecDeque::new() } }))
    }

    /// How the question of this source and identification arrived.
    pub(super) fn find(&mut self, source: IpAddr, identification: u16) -> io::Result<Seen> {
        self.read()?;
        Ok(self.recent.take(source, identification))
    }

    fn read(&mut self) -> io::Result<()> {
        for mut socket in &self.sockets {
            // Others may fill the socket faster than this reads.
            for _ in 0..KEPT {
                let mut bytes = vec![0; PACKET_MAX];
                match socket.read(&mut bytes) {
                    Ok(len) => bytes.truncate(len),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
                self.recent.add(bytes);
            }
        }
        Ok(())
    }
}

/// The last packets to a port, at most [`KEPT`].
struct Recent {
    port: u16,
    packets: VecDeque<(IpAddr, u32, Seen)>,
}

impl Recent {
    fn add(&mut self, bytes: Vec<u8>) {
        let Some(packet) = Packet::parse(bytes).ok().and_then(|packet| seen(&packet, self.port)) else {
            return;
        };
        self.packets.push_back(packet);
        if self.packets.len() > KEPT {
            self.packets.pop_front();
        }
    }

    fn take(&mut self, source: IpAddr, identification: u16) -> Seen {
        let wanted = (source, u32::from(identification));
        let found = self.packets.iter().rposition(|(source, id, _)| (*source, *id) == wanted);
        found.and_then(|at| self.packets.remove(at)).map_or(Seen::Unknown, |(.., seen)| seen)
    }
}

/// Source and identification of a packet with the UDP header of this port, and what its length says.
fn seen(packet: &Packet, port: u16) -> Option<(IpAddr, u32, Seen)> {
    let to = packet.payload().get(2..4)?;
    if packet.protocol() != UDP || to != port.to_be_bytes() {
        return None;
    }
    let (id, seen) = match (packet.fragment(), packet.leading_len()) {
        (Some(fragment), Some(len)) => {
            (fragment.identification, u16::try_from(len).map_or(Seen::Unknown, Seen::Leading))
        }
        // Atomic, or a fragment with the ports only by chance.
        (Some(fragment), None) if fragment.offset == 0 => (fragment.identification, Seen::Whole),
        (Some(_), None) => return None,
        (None, _) if packet.is_ipv6() => return None,
        (None, _) => {
            let identification = packet.as_bytes().get(4..6)?.try_into().ok()?;
            (u16::from_be_bytes(identification).into(), Seen::Whole)
        }
    };
    Some((packet.source(), id, seen))
}

#[cfg(test)]
mod tests {
    use kickass::code::Code;

    use super::{
        super::{
            message::{Form, ProbeMessage},
            question,
        },
        *,
    };

    #[test]
    fn packets_of_a_question_show_its_length() {
        let (from, to) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:4484".parse().unwrap());
        let code = Code::from_len(800).unwrap();
        for (form, expected) in [(Form::Whole, Seen::Whole), (Form::Fragmented, Seen::Leading(800))] {
            let message = ProbeMessage { run: 1, form, code, attempt: 0 };
            let payload = question::payload(&message, to).unwrap();
            let packets = question::packets(&message, &payload, from, to).unwrap();
            let id = message.identification().into();
            assert_eq!(seen(&packets[0], 4484), Some((from.ip(), id, expected)));
            assert_eq!(seen(&packets[0], 4485), None);
            assert!(packets[1..].iter().all(|packet| seen(packet, 4484).is_none()));
        }
    }

    #[test]
    fn a_flood_takes_no_more_memory_and_makes_lengths_unknown() {
        let to = "10.0.0.2:4484".parse().unwrap();
        let mut recent = Recent { port: 4484, packets: VecDeque::new() };
        recent.add(vec![0x45; 19]);
        let code = Code::from_len(800).unwrap();
        let add = |recent: &mut Recent, source: u32| {
            let from = std::net::SocketAddr::from((std::net::Ipv4Addr::from(source), 1));
            let message = ProbeMessage { run: 1, form: Form::Fragmented, code, attempt: 0 };
            let payload = question::payload(&message, to).unwrap();
            let leading = question::packets(&message, &payload, from, to).unwrap().swap_remove(0);
            recent.add(leading.into_bytes());
            (from.ip(), message.identification())
        };
        let (source, id) = add(&mut recent, 1);
        for other in 2..3 * KEPT as u32 {
            add(&mut recent, other);
        }
        assert_eq!(recent.packets.len(), KEPT);
        assert_eq!(recent.take(source, id), Seen::Unknown);
        let (source, id) = add(&mut recent, 1);
        assert!(matches!(recent.take(source, id), Seen::Leading(_)));
    }
}

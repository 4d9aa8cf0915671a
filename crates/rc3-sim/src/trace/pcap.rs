//! Packets as a pcap file with nanoseconds (draft-ietf-opsawg-pcap), as Wireshark reads it.
//!
//! Addresses and UDP ports are those of [`crate::host`], the same port at both ends of a flow, so that a flow is a
//! conversation. DSCP is the number of the level, not a code point: the queues of a world
//! know levels. Packets of RCP have IP protocol 253 (RFC 3692) and a header of their own; the bytes of the
//! application they stand for do not exist and are not captured.

use std::{
    io::{self, Write},
    time::Duration,
};

use etherparse::{IpDscp, IpEcn, IpNumber, Ipv4Header, UdpHeader};
use rc3_core::units::Level;

use crate::{
    IP_UDP_HEADERS, Packet,
    agent::{Body, Parcel},
    host::{ip_of, port_of},
    queue::ip::PROTOCOL_RCP,
    rcp::{self, RcpKind},
};

/// Seconds and nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Packets begin with an IPv4 header.
const LINKTYPE_IPV4: u32 = 228;
/// Longest packet: the total length field of IPv4.
const PACKET_MAX: u32 = 65_535;
const TTL: u8 = 64;

/// Writes packets to a capture file.
#[derive(Debug)]
pub struct Pcap<W> {
    out: W,
    /// One packet, header to end.
    buf: Vec<u8>,
}

impl<W: Write> Pcap<W> {
    /// A capture without packets. `out` is written in small pieces; a file wants a
    /// [`BufWriter`](std::io::BufWriter).
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&2_u16.to_le_bytes())?;
        out.write_all(&4_u16.to_le_bytes())?;
        // Time zone and accuracy, which are left zero.
        out.write_all(&[0; 8])?;
        out.write_all(&PACKET_MAX.to_le_bytes())?;
        out.write_all(&LINKTYPE_IPV4.to_le_bytes())?;
        Ok(Self { out, buf: Vec::new() })
    }

    /// Adds a packet seen so long after the beginning of the world.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn packet(&mut self, at: Duration, packet: &Packet<Parcel>) -> io::Result<()> {
        self.buf.clear();
        write_packet(packet, &mut self.buf)?;
        let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
        for field in [seconds, at.subsec_nanos(), self.buf.len() as u32, wire_size(packet).into()] {
            self.out.write_all(&field.to_le_bytes())?;
        }
        self.out.write_all(&self.buf)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Bytes of the whole packet, headers included, at most what IPv4's length field holds.
fn wire_size(packet: &Packet<Parcel>) -> u16 {
    let size = match &packet.payload.body {
        // In fragments it has more headers on the wire.
        Body::Udp { contents, .. } => contents.len() + IP_UDP_HEADERS,
        Body::Rcp(_) => packet.size,
    };
    u16::try_from(size).unwrap_or(u16::MAX)
}

fn write_packet(packet: &Packet<Parcel>, buf: &mut Vec<u8>) -> io::Result<()> {
    let parcel = &packet.payload;
    // Fragments are not written one by one: the capture holds the whole packet.
    let (protocol, ecn, dont_fragment) = match &parcel.body {
        Body::Udp { ecn, dont_fragment, .. } => (IpNumber::UDP, *ecn, *dont_fragment),
        Body::Rcp(_) => (IpNumber(PROTOCOL_RCP), 0, true),
    };
    let mut ip = Ipv4Header {
        total_len: wire_size(packet),
        dscp: dscp(packet.level),
        ecn: IpEcn::try_new(ecn & 3).unwrap_or(IpEcn::ZERO),
        dont_fragment,
        time_to_live: TTL - parcel.progress.hops.min(TTL),
        protocol,
        source: ip_of(parcel.from).octets(),
        destination: ip_of(parcel.to).octets(),
        ..Ipv4Header::default()
    };
    ip.header_checksum = ip.calc_header_checksum();
    ip.write(buf)?;
    match &parcel.body {
        Body::Udp { contents, .. } => {
            let port = port_of(parcel.flow);
            let mut bytes = Vec::with_capacity(contents.len());
            contents.write_to(&mut bytes);
            bytes.truncate(usize::from(u16::MAX) - IP_UDP_HEADERS);
            let udp = UdpHeader::with_ipv4_checksum(port, port, &ip, &bytes).map_err(io::Error::other)?;
            udp.write(buf)?;
            buf.extend_from_slice(&bytes);
        }
        Body::Rcp(header) => write_rcp(header, buf),
    }
    Ok(())
}

/// 20 bytes in network order: kind, whether it is the last segment, bytes of the application, rate in bytes per
/// second, and the offset, in answers to segments that up to which everything has come.
fn write_rcp(header: &rcp::RcpHeader, buf: &mut Vec<u8>) {
    let (kind, last, len, offset) = match header.kind {
        RcpKind::Syn => (0, false, 0, 0),
        RcpKind::SynAck => (1, false, 0, 0),
        RcpKind::Data(segment) => (2, segment.last, segment.len, segment.offset),
        RcpKind::Ack { received, segment, .. } => (3, segment.last, 0, received),
        RcpKind::Ref => (4, false, 0, 0),
        RcpKind::RefAck => (5, false, 0, 0),
    };
    buf.extend_from_slice(&[kind, last.into()]);
    buf.extend_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
    buf.extend_from_slice(&(header.rate as u64).to_be_bytes());
    buf.extend_from_slice(&offset.to_be_bytes());
}

fn dscp(level: Level) -> IpDscp {
    IpDscp::try_new(level.get()).unwrap_or(IpDscp::ZERO)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use pcap_file::{DataLink, pcap::PcapReader};

    use super::*;
    use crate::{
        Contents,
        agent::{FlowId, HostId, RoutePosition, SchemeId},
    };

    fn packet(level: u8, body: Body, size: usize) -> Packet<Parcel> {
        let payload = Parcel {
            flow: FlowId(70_000),
            scheme: SchemeId(0),
            from: HostId(5),
            to: HostId(0x0001_0203),
            progress: RoutePosition { hops: 2, ..RoutePosition::default() },
            body,
        };
        Packet { size, level: Level::new(level).unwrap(), payload }
    }

    fn udp(level: u8, contents: &[u8], ecn: u8) -> Packet<Parcel> {
        packet(
            level,
            Body::Udp { ecn, contents: Contents::new(contents), leading: None, dont_fragment: true },
            contents.len() + IP_UDP_HEADERS,
        )
    }

    #[test]
    fn captures_are_read_as_they_were_written() {
        let mut pcap = Pcap::new(Vec::new()).unwrap();
        let sent: Vec<_> = (0..16).map(|level| udp(level, &[level; 1200], level % 4)).collect();
        let time = |n: usize| Duration::new(3, 999_999_990) + Duration::from_nanos(n as u64);
        for (n, packet) in sent.iter().enumerate() {
            pcap.packet(time(n), packet).unwrap();
        }
        pcap.flush().unwrap();
        let mut reader = PcapReader::new(&pcap.out[..]).unwrap();
        assert_eq!(reader.header().datalink, DataLink::IPV4);
        for (n, packet) in sent.iter().enumerate() {
            let read = reader.next_packet().unwrap().unwrap();
            assert_eq!((read.timestamp, read.orig_len as usize), (time(n), packet.size));
            let sliced = SlicedPacket::from_ip(&read.data).unwrap();
            let Some(NetSlice::Ipv4(ip)) = sliced.net else { panic!("IPv4") };
            let ip = ip.header();
            assert_eq!((ip.source(), ip.destination()), ([10, 0, 0, 5], [10, 1, 2, 3]));
            assert_eq!((ip.dcp().value(), ip.ecn().value()), (packet.level.get(), n as u8 % 4));
            assert_eq!((usize::from(ip.total_len()), ip.ttl()), (packet.size, 62));
            let ip = ip.to_header();
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("UDP") };
            let port = 1024 + (70_000_u32 % 64_511) as u16;
            assert_eq!((udp.source_port(), udp.destination_port()), (port, port));
            assert_eq!(udp.payload(), [n as u8; 1200]);
            assert_eq!(udp.to_header().calc_checksum_ipv4(&ip, udp.payload()), Ok(udp.checksum()));
        }
        assert!(reader.next_packet().is_none());
    }

    #[test]
    fn packets_of_rcp_are_captured_by_their_headers() {
        let segment = rcp::RcpSegment { number: 9, offset: 0x1_0000_0001, len: 1460, last: true };
        let header = rcp::RcpHeader {
            kind: RcpKind::Data(segment),
            rate: 12.5e6,
            rtt: Duration::ZERO,
            sent: Instant::now(),
        };
        let mut pcap = Pcap::new(Vec::new()).unwrap();
        pcap.packet(Duration::ZERO, &packet(0, Body::Rcp(Box::new(header)), 1500)).unwrap();
        let mut reader = PcapReader::new(&pcap.out[..]).unwrap();
        let read = reader.next_packet().unwrap().unwrap();
        assert_eq!((read.orig_len, read.data.len()), (1500, 40));
        assert_eq!((read.data[9], &read.data[20..24]), (253, &[2, 1, 5, 180][..]));
        assert_eq!(read.data[24..32], 12_500_000_u64.to_be_bytes());
        assert_eq!(read.data[32..], 0x1_0000_0001_u64.to_be_bytes());
    }

    #[test]
    fn a_packet_too_long_for_ip_is_cut() {
        let mut pcap = Pcap::new(Vec::new()).unwrap();
        pcap.packet(Duration::ZERO, &udp(0, &[7; 70_000], 0)).unwrap();
        let mut reader = PcapReader::new(&pcap.out[..]).unwrap();
        assert_eq!(reader.next_packet().unwrap().unwrap().data.len(), 65_535);
    }
}

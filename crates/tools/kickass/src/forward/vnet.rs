//! The header that the kernel puts in front of each packet of a device with offloads (`struct virtio_net_hdr` of
//! `linux/virtio_net.h`). Its numbers have the byte order of the machine.

use kickass::offload::{Offload, PartialChecksum, SegmentRun};

/// Its length.
pub(crate) const LEN: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum covers only the pseudo-header so far.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// A bit beside the kind: the first segment has CWR, which the others must not repeat.
const GSO_ECN: u8 = 0x80;

const FLAGS: usize = 0;
const GSO_KIND: usize = 1;
const HEADER_LEN: usize = 2;
const GSO_SIZE: usize = 4;
const CHECKSUM_START: usize = 6;
const CHECKSUM_OFFSET: usize = 8;

/// The header of a packet that leaves nothing to the kernel.
pub(crate) const NONE: [u8; LEN] = [0; LEN];

/// What a header leaves to the device; `None` if it is a kind of segmentation that the device did not offer.
pub(crate) fn read(header: &[u8; LEN]) -> Option<Offload> {
    let number = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let segment_size = match header[GSO_KIND] & !GSO_ECN {
        GSO_NONE => None,
        GSO_TCPV4 | GSO_TCPV6 | GSO_UDP => Some(number(GSO_SIZE)),
        _ => return None,
    };
    let checksum = (header[FLAGS] & NEEDS_CHECKSUM != 0)
        .then(|| PartialChecksum { start: number(CHECKSUM_START), offset: number(CHECKSUM_OFFSET) });
    Some(Offload { segment_size, checksum })
}

/// The header of a run.
pub(crate) fn write(run: &SegmentRun) -> [u8; LEN] {
    let mut header = NONE;
    let Offload { segment_size, checksum } = run.offload();
    let mut set = |at: usize, number: u16| header[at..at + 2].copy_from_slice(&number.to_ne_bytes());
    // At most 60 bytes each of IPv4 and TCP; with the extension headers of IPv6, at most a packet.
    set(HEADER_LEN, run.headers() as u16);
    if let Some(PartialChecksum { start, offset }) = checksum {
        set(CHECKSUM_START, start);
        set(CHECKSUM_OFFSET, offset);
    }
    if let Some(size) = segment_size {
        set(GSO_SIZE, size);
        let ecn = if run.has_cwr() { GSO_ECN } else { 0 };
        header[GSO_KIND] = ecn
            | match (run.is_udp(), run.is_ipv6()) {
                (true, _) => GSO_UDP,
                (false, false) => GSO_TCPV4,
                (false, true) => GSO_TCPV6,
            };
    }
    if checksum.is_some() {
        header[FLAGS] = NEEDS_CHECKSUM;
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_is_left() {
        assert_eq!(read(&NONE), Some(Offload::default()));
        let mut header = NONE;
        header[FLAGS] = NEEDS_CHECKSUM;
        header[GSO_KIND] = GSO_TCPV6 | GSO_ECN;
        for (at, number) in [(GSO_SIZE, 1440_u16), (CHECKSUM_START, 40), (CHECKSUM_OFFSET, 16)] {
            header[at..at + 2].copy_from_slice(&number.to_ne_bytes());
        }
        let checksum = Some(PartialChecksum { start: 40, offset: 16 });
        assert_eq!(read(&header), Some(Offload { segment_size: Some(1440), checksum }));
        // UDP fragmentation offload is not among what the device offers.
        header[GSO_KIND] = 3;
        assert_eq!(read(&header), None);
    }
}

//! How long packets may be on a path, both ways.

use std::{io, net::SocketAddr, time::Duration};

use tokio::time::sleep;

use super::{
    listen::send_marked,
    path::{Check, PATIENCE},
    probe::Kind,
};
use crate::mtu;

/// What links are set to: the least of IPv6, tunnels, PPPoE, Ethernet, jumbo frames of data centres, of research networks,
/// loopback on some systems.
const MTUS: [u16; 8] = [1280, 1400, 1420, 1492, 1500, 8000, 9000, 16_384];
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(5);

/// Neither a mark nor of a burst.
const ROUND: u32 = u32::MAX;

/// The longest of some usual packets that the peer got and answered in as many bytes, IP header included; `None` if
/// none was answered.
pub(super) async fn longest(check: &mut Check<'_>, remote: SocketAddr) -> io::Result<Option<u16>> {
    for _ in 0..TRIES {
        for mtu in MTUS {
            let probe = check.probe(Kind::Mark, 0, false, ROUND);
            let datagram = probe.emit(check.key, mtu::payload(mtu, remote).into());
            send_marked(check.socket, remote, 0, false, &datagram).await?;
            sleep(PAUSE).await;
            check.collect(Duration::ZERO).await?;
        }
    }
    check.collect(PATIENCE).await?;
    let came = |mtu| {
        let len = usize::from(mtu::payload(mtu, remote));
        check.heard.iter().any(|heard| heard.reply.round == ROUND && heard.len == len)
    };
    Ok(MTUS.into_iter().rev().find(|&mtu| came(mtu)))
}

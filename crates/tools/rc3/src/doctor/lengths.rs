//! The longest packets of a path, in both directions.

use std::{io, net::SocketAddr, time::Duration};

use tokio::time::sleep;

use super::{
    listen::send_marked,
    path::{Check, PATIENCE},
    probe::Kind,
};
use crate::mtu;

/// Common MTUs: the minimum of IPv6, tunnels, PPPoE, Ethernet, jumbo frames of data centres and of research networks,
/// loopback on some systems.
const MTUS: [u16; 8] = [1280, 1400, 1420, 1492, 1500, 8000, 9000, 16_384];
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(5);

/// A round number outside those of marks and bursts.
const ROUND: u32 = u32::MAX;

/// The longest of these packets, IP header included, that the peer received and answered in the same length; `None` if
/// it answered none.
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

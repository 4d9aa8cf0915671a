//! Numbered datagrams at a steady rate, and how many of them arrive and how long they took. Both ends must run on one
//! machine, whose clock they share.

use std::{io, net::SocketAddr, net::UdpSocket, thread, time::Duration};

use nix::sys::socket::{setsockopt, sockopt};
use rc3_core::units::Rate;
use serde::{Deserialize, Serialize};
use socket2::SockRef;

use crate::net::{clock, path::PACKET, transport::Result};

/// Number, time, and whether it is the last one.
const HEADER: usize = 8 + 8 + 1;
/// A datagram in a full packet of IPv4, in bytes.
const LEN: usize = PACKET as usize - 28;
/// Datagrams in each system call, which the kernel or the device segments.
const BATCH: u64 = 43;
/// A receiver ends so long after the last datagram, if the mark of the end is lost.
const SILENCE: Duration = Duration::from_secs(2);
/// Room for what comes while a receiver does not run.
const BUFFER: usize = 64 << 20;

/// What arrived, as a line of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// From the first to the last, in seconds.
    pub seconds: f64,
    /// How long they took, in seconds: median, 99 %, and the longest.
    pub delays: [f64; 3],
}

/// Sends datagrams; the rate is of IP packets.
pub(super) fn send(to: SocketAddr, rate: Rate, time: Duration) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // The kernel may give less.
    let _ = SockRef::from(&socket).set_send_buffer_size(BUFFER);
    socket.connect(to)?;
    setsockopt(&socket, sockopt::UdpGsoSegment, &i32::try_from(LEN)?)?;
    let mut datagrams = vec![0; LEN * BATCH as usize];
    let gap = rate.time_for(PACKET * BATCH);
    let batches = (time.as_secs_f64() / gap.as_secs_f64()) as u64;
    let begun = clock::now();
    for nth in 0..batches {
        let due = begun + (gap.as_nanos() as u64) * nth;
        thread::sleep(Duration::from_nanos(due.saturating_sub(clock::now())));
        for (number, datagram) in (nth * BATCH..).zip(datagrams.chunks_mut(LEN)) {
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            datagram[8..16].copy_from_slice(&clock::now().to_be_bytes());
        }
        socket.send(&datagrams)?;
    }
    datagrams[..8].copy_from_slice(&(batches * BATCH).to_be_bytes());
    datagrams[16] = 1;
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(100));
        // The receiver may have gone with the first of them.
        let _ = socket.send(&datagrams[..LEN]);
    }
    Ok(())
}

/// Receives them, joined or not, and prints a [`Received`].
pub(super) fn receive(at: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(at)?;
    // What the kernel drops shows as lost. Only root may exceed the system's limit.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER);
    }
    setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    println!("ready");
    let mut tally = Tally::default();
    let mut datagrams = vec![0; 65_536];
    while !tally.ended {
        let len = match socket.recv(&mut datagrams) {
            Ok(len) => len,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => return Err(error.into()),
        };
        let now = clock::now();
        if tally.delays.is_empty() {
            socket.set_read_timeout(Some(SILENCE))?;
        }
        datagrams[..len].chunks(LEN).for_each(|datagram| tally.add(now, datagram));
    }
    println!("{}", serde_json::to_string(&tally.result())?);
    Ok(())
}

#[derive(Debug, Default)]
struct Tally {
    sent: u64,
    /// Nanoseconds.
    delays: Vec<u64>,
    first: u64,
    last: u64,
    ended: bool,
}

impl Tally {
    fn add(&mut self, now: u64, datagram: &[u8]) {
        let Some((header, _)) = datagram.split_first_chunk::<HEADER>() else { return };
        let number =
            |at: usize| header[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        if header[16] == 1 {
            self.sent = number(0);
            self.ended = true;
        } else if !self.ended {
            self.sent = self.sent.max(number(0) + 1);
            if self.delays.is_empty() {
                self.first = now;
            }
            self.last = now;
            self.delays.push(now.saturating_sub(number(8)));
        }
    }

    fn result(mut self) -> Received {
        self.delays.sort_unstable();
        let seconds = |share: f64| {
            let at = (share * self.delays.len().saturating_sub(1) as f64) as usize;
            self.delays.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e9)
        };
        Received {
            sent: self.sent,
            received: self.delays.len() as u64,
            seconds: (self.last - self.first) as f64 / 1e9,
            delays: [0.5, 0.99, 1.0].map(seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_arrive_before_the_mark_is_lost() {
        let datagram = |number: u64, at: u64, last: u8| {
            [&number.to_be_bytes()[..], &at.to_be_bytes(), &[last, 0, 0]].concat()
        };
        let mut tally = Tally::default();
        for number in [0, 1, 3] {
            tally.add(1_000_000 * (number + 20), &datagram(number, 1_000_000 * number, 0));
        }
        tally.add(0, b"short");
        tally.add(2_000_000_000, &datagram(5, 0, 1));
        let received = tally.result();
        assert_eq!((received.sent, received.received), (5, 3));
        assert_eq!(received.delays, [0.02, 0.02, 0.02]);
        assert!((received.seconds - 0.003).abs() < 1e-9, "{received:?}");
    }
}

//! Explicit rates from routers to endpoints, over IP networks without support for them, sans-IO: Kick-Ass (Flores,
//! Wenzel, Kuzmanovic, *Enabling Router-Assisted Congestion Control*, NU-EECS-16-09).
//!
//! A router signals a flow's rate by where it fragments a packet: the length of the leading fragment is the [`code`] of
//! the rate, and the lowest along a path arrives. Senders signal round-trip times to routers by the lengths of other
//! packets, the RTT [`indicator`]s. Hosts without Kick-Ass see ordinary fragments and reassemble them.
//!
//! Time and packets come in as arguments; nothing here has a clock or a socket.
//!
//! - [`router`] combines the other modules into an output port: `enqueue`, `dequeue`, `poll_timeout`.
//! - [`packet`] checks IPv4 and IPv6 packets and cuts them.
//! - [`offload`] has super-packets, whose segments a router handles one by one without copying them.
//! - [`queue`] has drop-tail, strict priority with push-out, and FQ-CoDel with ECN.
//! - [`law`] is the interface of rate laws, [`rcp`] the law of the paper (Rate Control Protocol, Dukkipati and
//!   McKeown).
//! - [`signal`] decides which packets carry a code, [`sampling`] how often, [`silence`] when to stop.
//! - [`endpoint`] has what senders and receivers do with rates; besides it they need only [`code`] and [`indicator`].
//!
//! ```
//! use std::time::{Duration, Instant};
//! use kickass::{Rate, code::Code, queue::DropTail, rcp, router::{RouterConfig, Router}};
//!
//! # let mut packet = [0; 1500]; // A UDP datagram without Don't Fragment.
//! # packet[..20].copy_from_slice(&[0x45, 0, 0x05, 0xdc, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
//! # let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
//! # packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
//! # let packet = packet.to_vec();
//! let now = Instant::now();
//! let link = Rate::from_bits_per_second(100_000_000).unwrap();
//! let law = rcp::RcpLaw::new(rcp::RcpConfig::for_codes(), link.bytes_per_second(), now, Duration::from_millis(10));
//! let mut router = Router::new(RouterConfig::default(), DropTail::new(1 << 20), law, now);
//! router.enqueue(now, packet)?;
//! let leading = router.dequeue(now).unwrap();
//! // RCP begins at a twentieth of the link; a code is within 3.2 % of it.
//! let code = leading.leading_len().and_then(Code::from_len).unwrap();
//! assert!((code.rate().bytes_per_second() / 625e3 - 1.0).abs() < 0.032);
//! assert_eq!(router.dequeue(now).unwrap().fragment().unwrap().offset, code.payload_len());
//! # Ok::<(), kickass::packet::Malformed>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

pub mod code;
pub mod endpoint;
pub mod indicator;
pub mod law;
mod link;
pub mod offload;
pub mod packet;
pub mod queue;
pub mod rcp;
pub mod router;
pub mod sampling;
pub mod signal;
pub mod silence;
pub mod stats;

pub use rc3_units::Rate;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

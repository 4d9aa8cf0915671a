//! Traces of a run: packets of a link for Wireshark, and the two loops of a flow over time.
//!
//! ```
//! # use rc3_sim::{trace::Pcap, world::{LinkId, World}};
//! # use std::sync::{Arc, Mutex};
//! # let mut world = World::new(Box::new(|_, _| [LinkId(0)].into()));
//! # let file = Vec::new();
//! // What arrives at the end of one link.
//! let pcap = Arc::new(Mutex::new(Pcap::new(file)?));
//! let tap = pcap.clone();
//! world.set_tap(Box::new(move |at, link, packet| {
//!     if link == LinkId(0) {
//!         let _ = tap.lock().unwrap().packet(at, packet);
//!     }
//! }));
//! // When the world has run:
//! pcap.lock().unwrap().flush()?;
//! # std::io::Result::Ok(())
//! ```

mod pcap;
mod timeline;

pub use pcap::Pcap;
pub use timeline::Timeline;

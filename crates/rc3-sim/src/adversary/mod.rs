//! A receiver that lies, and a search for the lies that harm others most.
//!
//! The liar is an honest host whose RLP datagrams and control frames a [`Lie`] changes on their way out: it has the keys
//! of its connection, so the sender takes them for its peer's. A [`Trial`] is one lie in one [`Setting`], a bottleneck
//! that the liar's sender shares with cross traffic and with short flows of honest hosts; an [`TrialResult`] has what
//! everybody got. [`Search`] varies lies and keeps those that do the most harm ([`Harms`]) compared with an honest receiver in the
//! same setting.
//!
//! ```
//! use rc3_sim::adversary::{Harms, Lie, Setting, Trial};
//!
//! let setting = Setting::find("slow").unwrap();
//! let lie: Lie = "withhold sack chance=0.5; delay rlp by=20".parse().unwrap();
//! let (honest, lying) = (Trial::honest(setting).run(), Trial { setting, lie }.run());
//! assert!(Harms::between(&honest, &lying).of("gain") < 1.2);
//! ```

mod cross;
mod harm;
mod liar;
mod lie;
mod mutation;
pub mod report;
mod script;
mod search;
mod setting;
mod statement;
mod trial;

pub use harm::Harms;
pub use lie::{Lie, LieError};
pub use search::{Champion, Search};
pub use setting::{Bottleneck, SETTINGS, Setting};
pub use trial::{Trial, TrialResult};

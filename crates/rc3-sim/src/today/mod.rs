//! The networks of today: flows over paths about which rc3 knows nothing, beside plain QUIC and the ideal.
//!
//! A [`Scenario`] is a TOML file: one kind of path, and the rates, round trips, buffers, cards and sizes whose product
//! makes its [`Cell`]s. [`run()`] runs the flow of each cell once with each [`Scheme`], and [`report`] compares them.
//!
//! ```
//! use std::num::NonZero;
//! use rc3_sim::today::{self, Scenario, Scheme, report};
//!
//! let scenario = Scenario::find("fifo").unwrap();
//! let cells: Vec<_> = scenario.quick().into_iter().filter(|cell| cell.bytes == 30_000).take(2).collect();
//! let schemes = [Scheme::Plain, Scheme::Guard];
//! let rows = today::run(&cells, &schemes, NonZero::<usize>::MIN, |_| ());
//! println!("{}", report::text(&rows, report::WORST));
//! assert!(rows.iter().all(|row| row.ratio_to_ideal(Scheme::Plain).is_some_and(|ratio| ratio > 0.99)));
//! ```

mod cell;
mod discipline;
mod flow;
mod path;
pub mod report;
mod run;
mod scenario;
mod scheme;
mod world;

pub use cell::{Cell, Company, Memory};
pub use discipline::Discipline;
pub use flow::{Harm, Outcome};
pub use path::{Path, Trouble};
pub use run::{Row, run};
pub use scenario::{SCENARIOS, Scenario};
pub use scheme::Scheme;

//! The networks of today: flows over paths about which rc3 knows nothing, beside plain QUIC and the ideal.
//!
//! A [`Path`] has one bottleneck with one queue; a [`Cell`] is a flow of one size over it. [`run()`] lets every cell
//! of a grid happen once with each [`Scheme`], and [`report`] compares them.
//!
//! ```
//! use std::num::NonZero;
//! use rc3_sim::today::{self, Discipline, Scheme, report};
//!
//! let cells = today::grid(&[Discipline::Fifo]).into_iter().filter(|cell| cell.bytes == 30_000);
//! let cells: Vec<_> = cells.take(2).collect();
//! let schemes = [Scheme::Plain, Scheme::Guard];
//! let rows = today::run(&cells, &schemes, NonZero::<usize>::MIN, |_| ());
//! println!("{}", report::text(&rows));
//! assert!(rows.iter().all(|row| row.ratio_to_ideal(Scheme::Plain).is_some_and(|ratio| ratio > 0.99)));
//! ```

mod flow;
mod grid;
mod path;
pub mod report;
mod run;
mod scheme;

pub use flow::{Outcome, flow};
pub use grid::{Cell, grid, quick};
pub use path::{Discipline, Path};
pub use run::{Row, run};
pub use scheme::Scheme;

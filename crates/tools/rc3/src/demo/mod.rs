//! `rc3 demo`: the same bytes over the same wide-area link by plain QUIC and by rc3, side by side.

pub mod bars;
pub mod buffer;
pub mod links;
pub mod queue;
pub mod report;
pub mod run;
pub mod scenario;
pub mod svg;

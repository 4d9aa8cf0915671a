//! The receiving end of one flow: what has come, and whether that is all.

use rc3_core::{internals::SpanSet, units::Span};

use super::RcpSegment;

/// Segments in, bytes without a gap out.
#[derive(Debug, Default)]
pub(super) struct RcpReceiver {
    spans: SpanSet,
    /// Length of the flow, once its last segment has come.
    bytes: Option<u64>,
}

impl RcpReceiver {
    pub(super) fn on_segment(&mut self, segment: RcpSegment) {
        let span = Span::new(segment.offset, segment.end());
        if !self.spans.append(span) {
            self.spans.insert(span);
        }
        if segment.last {
            self.bytes = Some(segment.end());
        }
    }

    /// Bytes from the first on without a gap.
    pub(super) fn received(&self) -> u64 {
        self.spans.first_gap(0)
    }

    /// What has come around `segment`, which has, without a gap.
    pub(super) fn run(&self, segment: RcpSegment) -> Span {
        self.spans.run_at(segment.offset).unwrap_or_else(|| Span::new(segment.offset, segment.end()))
    }

    /// Whether every byte has come.
    pub(super) fn is_complete(&self) -> bool {
        self.bytes == Some(self.spans.covered())
    }
}

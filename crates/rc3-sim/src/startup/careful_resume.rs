//! Careful Resume (RFC 9959): the window of an earlier connection, used at half and validated.
//!
//! The initial window confirms the path. Then the window jumps to half of the one remembered, paced by quinn-proto over
//! the round trip. Once the last packet of the jump is acknowledged, slow start goes on from what was delivered. A loss
//! before that is the safe retreat: half of what was delivered since the jump. That the path's round trip is the one
//! remembered is taken for granted.

use std::time::Instant;

use super::{Acked, BETA, FastStartLaw, Lost};

#[derive(Debug, Clone)]
pub(super) struct CarefulResume {
    window: u64,
    saved: u64,
    phase: ResumePhase,
}

#[derive(Debug, Clone, Copy)]
enum ResumePhase {
    /// The initial window is under way.
    Reconnaissance { began: Instant },
    /// The jump is: since when, until when packets count to it, and what of it was delivered.
    Jump { began: Instant, until: Option<Instant>, delivered: u64 },
    /// Slow start.
    Normal,
}

impl CarefulResume {
    pub(super) fn new(now: Instant, window: u64, saved: u64) -> Self {
        Self { window, saved, phase: ResumePhase::Reconnaissance { began: now } }
    }
}

impl FastStartLaw for CarefulResume {
    fn window(&self) -> u64 {
        self.window
    }

    fn on_ack(&mut self, Acked { now, sent, bytes, app_limited, .. }: Acked) -> Option<u64> {
        match &mut self.phase {
            ResumePhase::Reconnaissance { began } => {
                if app_limited || sent <= *began {
                    return None;
                }
                self.phase = if self.saved / 2 > self.window {
                    self.window = self.saved / 2;
                    ResumePhase::Jump { began: now, until: None, delivered: 0 }
                } else {
                    self.window += bytes;
                    ResumePhase::Normal
                };
            }
            ResumePhase::Jump { began, until, delivered } => {
                *delivered += bytes;
                if sent > *began {
                    // A round trip after the jump its last packet has left.
                    let last = *until.get_or_insert(now);
                    if sent >= last {
                        self.window = self.window.max(*delivered);
                        self.phase = ResumePhase::Normal;
                    }
                }
            }
            ResumePhase::Normal if app_limited => {}
            ResumePhase::Normal => self.window += bytes,
        }
        None
    }

    fn on_loss(&mut self, _: Lost) -> Option<u64> {
        Some(match self.phase {
            ResumePhase::Jump { delivered, .. } => delivered / 2,
            _ => (self.window as f64 * BETA) as u64,
        })
    }
}

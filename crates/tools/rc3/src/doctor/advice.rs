//! Which marks to send with, from what arrives and what is overtaken.

use std::collections::BTreeMap;

use rc3_net::marks::{DSCP_LOWER_EFFORT, MarkChoice};
use serde::{Serialize, Serializer};

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Normal priority overtook low priority.
    Overtaken,
    /// Packets with the default marks do not arrive at all.
    DefaultIsDropped,
    /// Nothing showed that other marks than the default are better.
    NothingBetter,
}

/// Marks to send with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// As `--marks` names them.
    #[serde(serialize_with = "name")]
    pub marks: MarkChoice,
    /// Why.
    pub reason: Reason,
}

fn name<S: Serializer>(choice: &MarkChoice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(choice.name())
}

impl Advice {
    /// What should be remembered of it: only what there is evidence for.
    pub fn evidence(self) -> Option<MarkChoice> {
        (self.reason != Reason::NothingBetter).then_some(self.marks)
    }

    pub(super) fn text(self) -> String {
        let marks = self.marks.name();
        match self.reason {
            Reason::Overtaken => {
                format!(
                    "  use --marks {marks}: low priority was overtaken; `rc3 send` does so by itself for a day\n"
                )
            }
            Reason::DefaultIsDropped => format!(
                "  ! packets marked LE do not arrive: use --marks {marks}; `rc3 send` does so by itself for a day\n"
            ),
            Reason::NothingBetter => format!("  no marks were seen to do better than --marks {marks}\n"),
        }
    }
}

/// `seen` has the marks that arrived, sent as and seen as; `overtaken` the choices that low priority was overtaken with, the
/// one that is best where all do well first.
///
/// A mark that only arrives is no evidence: in some networks CS1 is above best effort.
pub(super) fn advise(seen: &BTreeMap<u8, u8>, mut overtaken: impl Iterator<Item = MarkChoice>) -> Advice {
    if let Some(marks) = overtaken.next() {
        return Advice { marks, reason: Reason::Overtaken };
    }
    if seen.contains_key(&0) && !seen.contains_key(&DSCP_LOWER_EFFORT) {
        return Advice { marks: MarkChoice::None, reason: Reason::DefaultIsDropped };
    }
    Advice { marks: MarkChoice::default(), reason: Reason::NothingBetter }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overtaken_wins_and_the_default_stays_without_evidence() {
        let all: BTreeMap<u8, u8> = (0..64).map(|dscp| (dscp, dscp)).collect();
        let advice = advise(&all, [MarkChoice::Cs1, MarkChoice::Raised].into_iter());
        assert_eq!((advice.marks, advice.evidence()), (MarkChoice::Cs1, Some(MarkChoice::Cs1)));
        let advice = advise(&all, std::iter::empty());
        assert_eq!((advice.marks, advice.evidence()), (MarkChoice::LowerEffort, None));
        let bleached = (0..64).map(|dscp| (dscp, 0)).collect();
        assert_eq!(advise(&bleached, std::iter::empty()).reason, Reason::NothingBetter, "it does no harm");
    }

    #[test]
    fn marks_that_are_dropped_are_not_used() {
        let seen = (0..64).filter(|&dscp| dscp != DSCP_LOWER_EFFORT).map(|dscp| (dscp, dscp)).collect();
        let advice = advise(&seen, std::iter::empty());
        assert_eq!((advice.marks, advice.reason), (MarkChoice::None, Reason::DefaultIsDropped));
    }
}

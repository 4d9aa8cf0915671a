//! docs/results/over-time.md and its picture are what the rows give.

use std::{fs, path::Path};

use rc3_lab::over_time::draw;

#[test]
fn the_page_is_of_its_rows() {
    let csv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/over-time.csv");
    let (page, picture) = draw(&csv).unwrap();
    for (ending, drawn) in [("md", page), ("svg", picture)] {
        let kept = fs::read_to_string(csv.with_extension(ending)).unwrap();
        assert!(kept == drawn, "over-time.{ending} is not of over-time.csv: `rc3-lab over-time` draws it");
    }
}

#[test]
fn a_row_without_a_ratio_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("rows.csv");
    fs::write(&csv, "commits,commit,date,FCT,CPU\n1,aaaa,2026-11-24,0.7,\n2,bbbb,2026-11-25,fast,0.5\n")
        .unwrap();
    let error = draw(&csv).unwrap_err().to_string();
    assert!(error.contains("bbbb") && error.contains("fast"), "{error}");
    fs::write(&csv, "commits,commit,date,FCT,CPU\n1,aaaa,2026-11-24,0.7,\n2,bbbb,2026-11-25,0.6,0.5\n")
        .unwrap();
    let (page, picture) = draw(&csv).unwrap();
    assert!(page.contains("| 2 | bbbb | 2026-11-25 | 0.6 | 0.5 |") && picture.contains("<svg"), "{page}");
    assert!(page.contains("](rows.svg)"), "the picture beside it: {page}");
}

//! The figures: a picture and a document each.

mod completion;
mod modes;
mod path;
mod scene;
mod shared;
mod throughput;
mod waiting;

use std::{fs, path::Path};

use rc3_lab::document::{Block, Document, Table};
use rc3_picture::chart::Chart;

use self::scene::Scene;
use crate::Result;

/// The script of the testbed with one router.
const TESTBED: &str = "benches/kickass.sh";

/// What a figure leaves behind.
struct Figure {
    /// Its folder.
    name: &'static str,
    title: &'static str,
    /// The script that measures it.
    command: &'static str,
    /// Where it is in the paper, what is measured, and how.
    about: Vec<String>,
    charts: Vec<Chart>,
    /// What is printed of it, and what was measured.
    claims: Vec<Claim>,
    /// Headings and tables.
    tables: Vec<(&'static str, Table)>,
}

/// A sentence of the paper beside what was measured.
struct Claim {
    what: String,
    printed: &'static str,
    measured: String,
    holds: bool,
}

/// Makes all figures for which there are runs.
pub(crate) fn write(results: &Path, out: &Path) -> Result<()> {
    let light = Scene::read(&results.join("light"))?;
    let heavy = Scene::read(&results.join("heavy"))?;
    let long = Scene::read(&results.join("long"))?;
    let figures = [
        completion::figure(&light),
        waiting::figure(&heavy),
        throughput::figure(&heavy),
        shared::figure(&light),
        path::figure(&long),
    ];
    for figure in figures.into_iter().flatten() {
        figure.write(out)?;
    }
    Ok(())
}

impl Figure {
    fn write(self, out: &Path) -> Result<()> {
        let folder = out.join(self.name);
        fs::create_dir_all(&folder)?;
        let mut blocks: Vec<Block> = self.about.into_iter().map(Block::Text).collect();
        blocks.push(Block::Command(self.command.to_owned()));
        for (n, chart) in self.charts.iter().enumerate() {
            let stem = match n {
                0 => self.name.to_owned(),
                n => format!("{}-{}", self.name, n + 1),
            };
            rc3_picture::write(chart, &folder, &stem)?;
            blocks.push(Block::Picture { file: format!("{stem}.svg"), alt: chart.title.clone() });
        }
        if !self.claims.is_empty() {
            blocks.push(Block::Heading("Printed and measured".to_owned()));
            blocks.push(Block::Table(claims(&self.claims)));
        }
        for (heading, table) in self.tables {
            blocks.push(Block::Heading(heading.to_owned()));
            blocks.push(Block::Table(table));
        }
        let document = Document { title: self.title.to_owned(), blocks };
        fs::write(folder.join("report.md"), document.markdown())?;
        Ok(())
    }
}

fn claims(claims: &[Claim]) -> Table {
    let mut table = Table::new(&["claim", "printed", "measured", "holds"]);
    for Claim { what, printed, measured, holds } in claims {
        let holds = if *holds { "yes" } else { "no" };
        table.rows.push(vec![what.clone(), (*printed).to_owned(), measured.clone(), holds.to_owned()]);
    }
    table
}

//! Which boot parameter helped? An experiment of a lab, to the terminal, as a page and as JSON.

use punctual_record::lab::{Lab, ProofConclusion};
use punctual_report::lab::{page, proof_outcome, proof_sentence, tables};
use punctual_report::style::Style;
use punctual_report::summary_json;
use punctual_stats::experiment::Measure;
use punctual_stats::verdict::Outcome;

use super::labs;

fn proven() -> Lab {
    Lab {
        proof: Some(labs::proof()),
        ..labs::lab()
    }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_parameter_has_its_conclusion_on_each_kernel() {
    let proof = labs::proof();
    let conclusions: Vec<ProofConclusion> = proof.rows.iter().map(|row| row.conclusion()).collect();
    let both = [
        ProofConclusion::Helps,
        ProofConclusion::Harms,
        ProofConclusion::NoDifference,
        ProofConclusion::NoEffectShown,
    ];
    assert_eq!(conclusions[..4], both);
    assert_eq!(conclusions[4], ProofConclusion::NoEffectShown);
    assert_eq!(conclusions[6..10], both);
    assert_eq!(conclusions[10], ProofConclusion::Unknown);
    let measures = |at: usize| -> Vec<Measure> {
        let effects = proof.rows[at].result.effects.iter();
        effects.map(|it| it.measure).collect()
    };
    assert_eq!(measures(0), Measure::EXACT);
    assert!(measures(10).is_empty());
    assert_eq!(proof_outcome(&proof), Outcome::Pass);
    assert_eq!(
        proof_sentence(&proof),
        "preempt=full helps; harm=1 harms; threadirqs is unknown (to kernel rt)."
    );
}

#[test]
fn without_a_deadline_there_is_no_excess() {
    let mut proof = labs::proof();
    proof.deadline_ns = None;
    proof.judge();
    let effects = &proof.rows[0].result.effects;
    assert!(effects.iter().all(|it| it.measure != Measure::Excess));
    assert_eq!(effects.len(), 4);
}

#[test]
fn the_table_names_what_the_control_does_too() {
    let text = tables(&proven(), &Style::plain());
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let words = flat(&text);
    for said in [
        "standard, poll measure off on change interval p preempt=full p50 4.00 µs 2.00 µs -50 %",
        "helps p99",
        "no difference at all p99",
        "threadirqs unknown to this kernel control p50",
        "what any word changes p99",
        "12 pairs of guests",
        "the word lab.control=1, which the kernel ignores",
        "exceed 15 µs, the limit of the command",
        "changes below 1 % are not named",
        "one instruction is 1 ns",
    ] {
        assert!(words.contains(said), "{said}: {text}");
    }
}

#[test]
fn too_few_seeds_are_inconclusive() {
    let mut proof = labs::proof();
    for row in &mut proof.rows {
        row.pairs.truncate(11);
    }
    proof.judge();
    assert_eq!(proof_outcome(&proof), Outcome::Inconclusive);
    let said = proof_sentence(&proof);
    assert!(
        said.starts_with("INCONCLUSIVE: 11 of at least 12 seeds"),
        "{said}"
    );
}

#[test]
fn the_page_and_the_json_say_the_same() {
    let lab = proven();
    let page = page(&lab, "");
    for said in [
        "Which boot parameter helped?",
        "preempt=full helps; harm=1 harms",
        "unknown to this kernel",
        "<svg",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let json: serde_json::Value = serde_json::from_str(&summary_json::of_lab(&lab)).expect("JSON");
    let said = json["proof"]["sentence"].as_str().expect("a sentence");
    assert_eq!(said, proof_sentence(&labs::proof()));
    assert_eq!(json["proof"]["rows"][0]["result"]["conclusion"], "helps");
}

/// A record may name what is not there.
#[test]
fn a_proof_of_nothing_is_shown() {
    let mut lab = proven();
    let proof = lab.proof.as_mut().expect("one");
    proof.parameters.clear();
    for text in [tables(&lab, &Style::plain()), page(&lab, "")] {
        assert!(text.contains("No parameter has shown"), "{text}");
    }
    lab.proof.as_mut().expect("one").rows.clear();
    lab.cells.clear();
    assert!(tables(&lab, &Style::plain()).contains("No parameter has shown"));
}

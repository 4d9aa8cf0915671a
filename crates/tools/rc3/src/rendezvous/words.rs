//! The words of codes: 256 plain English ones of four to seven letters, of which any two differ in at least three letters
//! and in the first four.

/// In alphabetical order.
pub(super) const WORDS: [&str; 256] = [
    "abacus", "able", "acid", "acorn", "adult", "agent", "album", "amber", "anchor", "apron", "artist",
    "attic", "autumn", "badge", "baker", "banjo", "barrel", "basin", "beach", "beetle", "bell", "berry",
    "biscuit", "bishop", "blanket", "bonnet", "border", "bread", "brick", "bronze", "broom", "bucket",
    "bundle", "burrow", "butter", "cactus", "camera", "canyon", "captain", "carpet", "castle", "cellar",
    "cement", "chalk", "chimney", "circle", "citrus", "clock", "clover", "coast", "coffee", "compass",
    "copper", "coral", "cotton", "cougar", "cousin", "cradle", "cricket", "crown", "crystal", "cushion",
    "dairy", "dancer", "decade", "denim", "desert", "diamond", "doctor", "dolphin", "domino", "donkey",
    "double", "dragon", "drawer", "drum", "duck", "earth", "echo", "editor", "elbow", "eleven", "empire",
    "engine", "errand", "estate", "exit", "fabric", "falcon", "farmer", "fender", "fiddle", "flame",
    "forest", "fossil", "fridge", "funnel", "galaxy", "garden", "garlic", "gazelle", "ghost", "giant",
    "ginger", "gold", "grape", "guitar", "habit", "harbor", "hazel", "helmet", "hero", "hexagon", "hobby",
    "horse", "husky", "igloo", "index", "infant", "insect", "invoice", "island", "ivory", "jaguar", "jewel",
    "jigsaw", "juice", "kayak", "kernel", "kite", "knight", "koala", "ladder", "lagoon", "lemon", "lilac",
    "linen", "lizard", "lunch", "magnet", "mammal", "meadow", "medal", "melody", "mentor", "mirror",
    "mitten", "mosaic", "muffin", "museum", "napkin", "nature", "nectar", "nephew", "nickel", "noodle",
    "novel", "nutmeg", "ocean", "office", "olive", "onion", "opera", "orange", "oxygen", "palace", "panda",
    "parrot", "pelican", "pencil", "picnic", "pigeon", "pillow", "pirate", "poem", "potato", "prairie",
    "pretzel", "pulse", "pumpkin", "puppet", "puzzle", "pyramid", "quarry", "queen", "quilt", "quiver",
    "raccoon", "radio", "raft", "raven", "recipe", "rhubarb", "ribbon", "robot", "ruby", "saffron", "sailor",
    "scarf", "school", "shrimp", "silver", "sketch", "slipper", "smoke", "snail", "soccer", "sofa", "sphinx",
    "spider", "spruce", "squash", "summer", "sunny", "sunset", "swan", "syrup", "teapot", "temple", "tennis",
    "thimble", "thunder", "tornado", "tractor", "tribune", "trumpet", "tulip", "tundra", "turtle", "twelve",
    "unicorn", "upward", "urban", "valley", "vanilla", "vessel", "victory", "village", "violin", "visitor",
    "voyage", "vulture", "waffle", "walnut", "weaver", "wheat", "whisper", "window", "wool", "wrench",
    "yacht", "yard", "yogurt", "zebra", "zigzag", "zinc",
];

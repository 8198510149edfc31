"""The recipes: the only list of them. Importing it loads declarations only; what computes is loaded by `task()`."""

from threefold.recipes.charlm import CharlmRecipe
from threefold.recipes.images import DigitsRecipe, OctmnistRecipe
from threefold.recipes.recipe import Recipe
from threefold.recipes.sentiment import SentimentRecipe
from threefold.recipes.speech import SpeechRecipe
from threefold.recipes.toys import AddingRecipe, ComparatorRecipe, CopyRecipe, PermutationRecipe, RecallRecipe

RECIPES: tuple[type[Recipe], ...] = (
    DigitsRecipe,
    OctmnistRecipe,
    SentimentRecipe,
    SpeechRecipe,
    CharlmRecipe,
    RecallRecipe,
    CopyRecipe,
    AddingRecipe,
    ComparatorRecipe,
    PermutationRecipe,
)

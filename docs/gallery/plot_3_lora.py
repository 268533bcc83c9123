"""
LoRA and freezing
=================

Compare how many weights learn with LoRA, freezing and both. PEFT decides *where* new weights are, a
method decides *when* weights learn: on a PEFT model, a layer's group is what PEFT left trainable.
"""

# %%
# These are five ways to train the embedded encoder. Closed weights need no gradient and no
# optimizer state.

import matplotlib.pyplot as plt
import peft
import torch
from transformers import AutoModelForSequenceClassification

import gradgate as gg
from gradgate.sample import MODEL


def encoder():
    """Return a fresh copy with a new head."""
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=4)


def lora():
    """Return a copy with LoRA in the attention of every layer."""
    return peft.get_peft_model(
        encoder(), peft.LoraConfig(task_type="SEQ_CLS", r=8, target_modules=["query", "value"])
    )


WAYS = {
    "full": (encoder, "full"),
    "freeze:layers=3": (encoder, "freeze:layers=3"),
    "bitfit": (encoder, "bitfit"),
    "LoRA": (lora, "full"),
    "LoRA, gradual": (lora, "gradual:every=10"),
}

# %%
# In each step, count the weights that have a gradient.

STEPS = 40
inputs = {"input_ids": torch.randint(5, 200, (8, 16)), "labels": torch.arange(8) % 4}


def learning(make, spec):
    """Return the number of weights with a gradient in each step."""
    model = make()
    optimizer = torch.optim.AdamW(
        [weight for weight in model.parameters() if weight.requires_grad], lr=1e-3
    )
    tuner = gg.Tuner(model, optimizer, spec, seed=0, total_steps=STEPS)
    counts = []
    for _ in range(STEPS):
        model(**inputs).loss.backward()
        counts.append(
            sum(weight.numel() for weight in model.parameters() if weight.grad is not None)
        )
        optimizer.step()
        optimizer.zero_grad()
    tuner.detach()
    return counts


counts = {name: learning(*way) for name, way in WAYS.items()}
for name, course in counts.items():
    print(
        f"{name:<16} {course[0]:>9,} weights learn in the first step, {course[-1]:>9,} in the last"
    )

# %%

figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, course in counts.items():
    axis.plot(range(1, STEPS + 1), course, label=name)
axis.set(yscale="log", xlabel="optimizer steps", ylabel="weights with a gradient")
figure.legend(loc="outside right center", frameon=False)
plt.show()

# %%
# LoRA's best learning rate is about ten times that of full fine-tuning. Before you compare scores,
# search it with ``gradgate compare --search lr=...``.

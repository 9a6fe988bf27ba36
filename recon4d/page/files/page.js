/** The scene page by itself: the player fills it. */

import { Player } from "./player.js";

const place = document.getElementById("player");
const player = new Player(place, place.dataset.view);
player.ready.catch(() => {}); // The player has told already.
globalThis.player = player;

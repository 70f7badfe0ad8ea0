# Forked processes and their results; every line of output depends on the seed alone.
library(parallel)
work <- function(n) {
  set.seed(n)
  words <- replicate(500, paste(sample(letters, 1 + n %% 12, TRUE), collapse = ""))
  frame <- data.frame(g = sample(words[1:40], 4000, TRUE), x = rnorm(4000), y = runif(4000))
  sums <- aggregate(cbind(x, y) ~ g, frame, sum)
  fit <- lm(y ~ poly(x, 3) + g, frame)
  sprintf("%d %.6f %.6f %.6f %d", n, sum(abs(sums$x)), sum(coef(fit), na.rm = TRUE), kappa(crossprod(matrix(rnorm(3600), 60))),
          nchar(paste(serialize(sums, NULL), collapse = "")))
}
found <- mclapply(1:60, work, mc.cores = 2)
for (line in found) { cat("> ", line, "\n", sep = "") }
cluster <- makeForkCluster(2)
for (line in parLapply(cluster, 61:90, work)) { cat("> ", line, "\n", sep = "") }
stopCluster(cluster)
big <- lapply(1:200, function(n) raw(n * 5000))
big[c(TRUE, FALSE)] <- NULL
invisible(gc())
cat("> kept ", sum(vapply(big, length, 1L)), "\n", sep = "")
